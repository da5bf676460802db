// Whole reads and writes at offsets of a descriptor: what pread and pwrite do piecewise.
//
// Owns nothing and words no errors: each file class says its own.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::system {

/// How many bytes came before the file's end, all of `into` unless it ends earlier; -1 and errno
/// where reading failed.
ssize_t read_fully(int descriptor, std::uint64_t offset, std::span<std::byte> into);

/// False and errno where writing failed.
bool write_fully(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace paceline::system
