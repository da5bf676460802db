// Independent pieces of blocking work on a few threads of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/error.h"

namespace paceline::shard {

/// Calls work(0) ... work(count - 1), each once, on at most `threads` threads (the caller's is one
/// of them; 0 means 1), and returns the error of the lowest index that failed: the one a single
/// thread would have met. Indices above a failure may be skipped.
Status for_each_index(std::size_t count, std::uint32_t threads,
                      const std::function<Status(std::size_t)>& work);

}  // namespace paceline::shard
