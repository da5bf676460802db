// What the operating system says about memory, of the machine and of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

/// Gives back what this process holds of a file mapped for reading (pages wholly in `mapped`), and
/// what the allocator keeps for later. Nothing is lost: what is touched again is read again.
void release_memory(std::span<const std::byte> mapped);

}  // namespace paceline::system
