// What OpenVINO finds on this machine, and whether it really computes.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace paceline::engine {

struct Device {
  std::string id;                         ///< "CPU", "GPU.0", "NPU"
  std::string full_name;                  ///< empty where the device does not tell
  std::vector<std::string> capabilities;  ///< e.g. "BF16"
  std::string problem;                    ///< empty where a test inference gave the right numbers
};

/// The version of the runtime that is loaded, e.g. "2026.4.1-...".
std::string openvino_version();

/// The instruction set that decides which kernels the CPU plugin takes, e.g. "avx512_core_bf16".
/// Stages of different sets do not compute bitwise the same.
std::string cpu_isa();

/// Every device, each tried with a small inference; one that fails says why and ends nothing.
Result<std::vector<Device>> list_devices();

}  // namespace paceline::engine
