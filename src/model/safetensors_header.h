// The header of a safetensors file: its tensor table, checked against the file's length.
//
// Only the structure of one file; safetensors.h makes a model of one or several. A header is JSON
// and is read in one pass: memory is linear in its bytes, and nothing is allocated by a number that
// it holds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/tensor_source.h"

namespace paceline::model {

/// A file begins with the header's length in this many bytes, little-endian.
inline constexpr std::uint64_t kSafetensorsPrefixBytes = 8;
/// The format's own limit.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;     ///< as they lie in the file; a scalar has the shape [1]
  std::vector<std::uint64_t> offsets;  ///< from the start of the file, as `tensors`
};

/// Checks the length that a file's first bytes give against the file's.
Result<std::uint64_t> safetensors_header_bytes(std::uint64_t length, std::uint64_t file_bytes);

/// Reads the header's text, which lies behind the length. Tensors must fill the rest of the file
/// without holes or overlaps, each of as many bytes as its shape and type say. Errors say the
/// tensor and what was expected, not the file's name: kDataLoss for what is damaged or no
/// safetensors, kUnimplemented for a type that is not read.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t file_bytes);

}  // namespace paceline::model
