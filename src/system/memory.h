// What the operating system says about memory, of the machine and of this process.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace paceline::system {

struct MachineMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;  ///< free without swapping; a cgroup's limit counts
};
Result<MachineMemory> machine_memory();

struct ProcessMemory {
  std::uint64_t resident_bytes = 0;
  std::uint64_t anonymous_bytes = 0;  ///< resident and not backed by a file
};
Result<ProcessMemory> process_memory();

}  // namespace paceline::system
