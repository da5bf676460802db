// The generated protobuf types. Internal to src/wire's .cc files.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "wire/messages.pb.h"
#pragma GCC diagnostic pop
