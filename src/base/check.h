// Checks of our own invariants: a failure is a bug of ours, prints where, and aborts.
// Never for input of any kind (files, frames, requests): those get an Error.
#pragma once

#include <cstdio>
#include <cstdlib>

#define PACELINE_CHECK(condition)                                                              \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);       \
      std::abort();                                                                            \
    }                                                                                          \
  } while (false)
