// The structure of a GGUF file: header, metadata and tensor table, checked against its size.
//
// Only the structure: what the keys mean is gguf.h's. Nothing is allocated by a count or a length
// of the file before the remaining bytes have shown room for it, and the time is linear in the
// bytes of header, metadata and table (a sort of the tensors' offsets beside it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/tensor_source.h"

namespace paceline::model {

/// Types of metadata values; the numbers are the format's.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// For messages, e.g. "u32" or "string".
std::string_view to_string(GgufType type);
/// Bytes of one value; 0 for strings and arrays.
std::size_t size_bytes(GgufType type);

/// A value as it lies in the file.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element_type = GgufType::kU8;  ///< of an array
  std::uint64_t count = 1;                ///< elements of an array
  std::span<const std::byte> bytes;       ///< after the array's header; strings with their lengths
};

using GgufValues = std::map<std::string, GgufValue, std::less<>>;

struct GgufContents {
  GgufValues values;
  std::vector<TensorInfo> tensors;            ///< in the order of the file's table
  std::vector<std::uint64_t> tensor_offsets;  ///< from the start of the file, as `tensors`
};

/// Reads versions 2 and 3, little-endian. The contents view `file`, which must outlive them.
/// Errors say the field and what was expected, not the file's name: kDataLoss for what is damaged
/// or no GGUF, kUnimplemented (named) for versions and tensor types that are not read.
Result<GgufContents> parse_gguf(std::span<const std::byte> file);

}  // namespace paceline::model
