#include "model/gguf_parser.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/checked_math.h"
#include "model/byte_cursor.h"
#include "model/foreign_text.h"

namespace paceline::model {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kMaxNameBytes = 65535;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 1U << 20;
constexpr int kMaxArrayDepth = 4;
// The least that one entry takes: a length and one byte of a key, a type and a value; likewise of a
// tensor a name, a rank, one dimension, a type and an offset.
constexpr std::uint64_t kMinValueBytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

struct TypeRow {
  std::string_view name;
  std::size_t size_bytes;
};
constexpr std::array<TypeRow, 13> kTypes = {{{"u8", 1},
                                             {"i8", 1},
                                             {"u16", 2},
                                             {"i16", 2},
                                             {"u32", 4},
                                             {"i32", 4},
                                             {"f32", 4},
                                             {"bool", 1},
                                             {"string", 0},
                                             {"array", 0},
                                             {"u64", 8},
                                             {"i64", 8},
                                             {"f64", 8}}};

// Names by ggml's numbers, for messages; empty where a number was withdrawn.
constexpr std::array<std::string_view, 42> kTensorTypeNames = {
    "F32",     "F16",   "Q4_0",   "Q4_1",  "",      "",       "Q5_0", "Q5_1",    "Q8_0",
    "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",  "Q6_K",   "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",     "I32",
    "I64",     "F64",   "IQ1_M",  "BF16",  "",      "",       "",     "TQ1_0",   "TQ2_0",
    "",        "",      "",       "MXFP4", "NVFP4", "Q1_0"};

/// Types whose name ggml numbers: all of ours but those that only other formats have.
std::optional<TensorType> tensor_type_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kTensorTypes; ++i) {
    const auto type = static_cast<TensorType>(i);
    if (!name.empty() && to_string(type) == name) return type;
  }
  return std::nullopt;
}

std::string names_of_read_types() {
  std::string names;
  for (const std::string_view name : kTensorTypeNames) {
    if (!tensor_type_from_name(name)) continue;
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

struct Header {
  std::uint64_t tensors = 0;
  std::uint64_t values = 0;
};

Status check_version(std::uint32_t version) {
  if (version == 2 || version == 3) return {};
  if (version == 0x02000000 || version == 0x03000000) {
    return fail(ErrorCode::kUnimplemented, "version: is big-endian, expected little-endian");
  }
  return fail(ErrorCode::kUnimplemented, "version: is {}, expected 2 or 3", version);
}

Status check_count(std::string_view field, std::uint64_t count, std::uint64_t possible) {
  if (count <= possible) return {};
  return fail(ErrorCode::kDataLoss, "{}: is {}, expected at most {} in the bytes that are left",
              field, count, possible);
}

Result<Header> read_header(ByteCursor& cursor) {
  PACELINE_ASSIGN_OR_RETURN(const auto magic, cursor.number<std::uint32_t>("magic"));
  if (magic != kMagic) {
    return fail(ErrorCode::kDataLoss, "magic: is 0x{:08x}, expected \"GGUF\" (not a GGUF file?)",
                magic);
  }
  PACELINE_ASSIGN_OR_RETURN(const auto version, cursor.number<std::uint32_t>("version"));
  PACELINE_RETURN_IF_ERROR(check_version(version));
  Header header;
  PACELINE_ASSIGN_OR_RETURN(header.tensors, cursor.number<std::uint64_t>("tensor count"));
  PACELINE_ASSIGN_OR_RETURN(header.values, cursor.number<std::uint64_t>("metadata count"));
  PACELINE_RETURN_IF_ERROR(
      check_count("tensor count", header.tensors, cursor.remaining() / kMinTensorBytes));
  PACELINE_RETURN_IF_ERROR(
      check_count("metadata count", header.values, cursor.remaining() / kMinValueBytes));
  return header;
}

Result<std::string> read_name(ByteCursor& cursor, std::string_view field) {
  PACELINE_ASSIGN_OR_RETURN(const auto name, cursor.string(field));
  if (name.empty() || name.size() > kMaxNameBytes) {
    return fail(ErrorCode::kDataLoss, "{}: has {} bytes, expected 1 to {}", field, name.size(),
                kMaxNameBytes);
  }
  return std::string(name);
}

Result<GgufType> read_type(ByteCursor& cursor, std::string_view field) {
  PACELINE_ASSIGN_OR_RETURN(const auto number, cursor.number<std::uint32_t>(field));
  if (number >= kTypes.size()) {
    return fail(ErrorCode::kDataLoss, "{}: has the value type {}, expected 0 to {}", field, number,
                kTypes.size() - 1);
  }
  return static_cast<GgufType>(number);
}

Status skip_array(ByteCursor& cursor, std::string_view field, int depth, GgufValue* array);

/// Passes over `count` values of one type; `depth` is that of the array that holds them.
Status skip_values(ByteCursor& cursor, std::string_view field, GgufType type, std::uint64_t count,
                   int depth) {
  if (const std::size_t size = size_bytes(type); size > 0) {
    const auto total = checked_multiply(count, size);
    return cursor.take(total.value_or(UINT64_MAX), field).map([](auto) {});
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == GgufType::kString) {
      PACELINE_RETURN_IF_ERROR(cursor.string(field));
    } else {
      GgufValue nested;
      PACELINE_RETURN_IF_ERROR(skip_array(cursor, field, depth + 1, &nested));
    }
  }
  return {};
}

/// Passes over an array, its header included, and notes the header in `array`.
Status skip_array(ByteCursor& cursor, std::string_view field, int depth, GgufValue* array) {
  if (depth > kMaxArrayDepth) {
    return fail(ErrorCode::kDataLoss, "{}: arrays lie in arrays, expected at most {} deep", field,
                kMaxArrayDepth);
  }
  PACELINE_ASSIGN_OR_RETURN(array->element_type, read_type(cursor, field));
  PACELINE_ASSIGN_OR_RETURN(array->count, cursor.number<std::uint64_t>(field));
  return skip_values(cursor, field, array->element_type, array->count, depth);
}

Result<GgufValue> read_value(ByteCursor& cursor, std::span<const std::byte> file,
                             std::string_view field) {
  constexpr std::size_t kArrayHeaderBytes = 4 + 8;
  GgufValue value;
  PACELINE_ASSIGN_OR_RETURN(value.type, read_type(cursor, field));
  std::size_t begin = cursor.position();
  if (value.type == GgufType::kArray) {
    PACELINE_RETURN_IF_ERROR(skip_array(cursor, field, 1, &value));
    begin += kArrayHeaderBytes;
  } else {
    PACELINE_RETURN_IF_ERROR(skip_values(cursor, field, value.type, 1, 0));
  }
  value.bytes = file.subspan(begin, cursor.position() - begin);
  return value;
}

Status read_values(ByteCursor& cursor, std::span<const std::byte> file, std::uint64_t count,
                   GgufContents& contents) {
  for (std::uint64_t i = 0; i < count; ++i) {
    PACELINE_ASSIGN_OR_RETURN(auto key, read_name(cursor, fmt::format("metadata key {}", i)));
    const std::string field = "metadata " + in_quotes(key);
    PACELINE_ASSIGN_OR_RETURN(const GgufValue value, read_value(cursor, file, field));
    if (!contents.values.emplace(std::move(key), value).second) {
      return fail(ErrorCode::kDataLoss, "{}: is there twice, expected once", field);
    }
  }
  return {};
}

Result<std::vector<std::uint64_t>> read_shape(ByteCursor& cursor, std::string_view field) {
  PACELINE_ASSIGN_OR_RETURN(const auto rank, cursor.number<std::uint32_t>(field));
  if (rank == 0 || rank > kMaxDimensions) {
    return fail(ErrorCode::kDataLoss, "{}: has {} dimensions, expected 1 to {}", field, rank,
                kMaxDimensions);
  }
  std::vector<std::uint64_t> shape(rank);
  for (std::uint64_t& dimension : shape) {
    PACELINE_ASSIGN_OR_RETURN(dimension, cursor.number<std::uint64_t>(field));
    if (dimension == 0 || dimension > INT64_MAX) {
      return fail(ErrorCode::kDataLoss, "{}: has a dimension of {}, expected 1 to 2^63-1", field,
                  dimension);
    }
  }
  std::reverse(shape.begin(), shape.end());  // the file has the contiguous dimension first
  return shape;
}

Result<TensorType> read_tensor_type(ByteCursor& cursor, std::string_view field) {
  PACELINE_ASSIGN_OR_RETURN(const auto number, cursor.number<std::uint32_t>(field));
  const std::string_view name =
      number < kTensorTypeNames.size() ? kTensorTypeNames[number] : std::string_view();
  if (const auto type = tensor_type_from_name(name)) return *type;
  return fail(ErrorCode::kUnimplemented, "{}: has the type {}, expected one of {}", field,
              name.empty() ? fmt::format("{}", number) : std::string(name), names_of_read_types());
}

/// The bytes of a tensor; an overflow can lie in no file.
Result<std::uint64_t> tensor_bytes(const TensorInfo& tensor, std::string_view field) {
  const std::uint64_t columns = tensor.shape.back();
  if (columns % block_elements(tensor.type) != 0) {
    return fail(ErrorCode::kDataLoss,
                "{}: has rows of {} elements, expected a multiple of {} for {}", field, columns,
                block_elements(tensor.type), to_string(tensor.type));
  }
  const auto elements = checked_product(tensor.shape);
  const auto bytes =
      elements ? checked_multiply(*elements / block_elements(tensor.type), block_bytes(tensor.type))
               : std::nullopt;
  if (bytes) return *bytes;
  return fail(ErrorCode::kDataLoss, "{}: its dimensions {} are more than any file holds", field,
              fmt::join(tensor.shape, " x "));
}

/// Reads the table; offsets are left relative to the tensor data.
Status read_tensors(ByteCursor& cursor, std::uint64_t count, GgufContents& contents) {
  std::unordered_set<std::string> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    TensorInfo tensor;
    PACELINE_ASSIGN_OR_RETURN(tensor.name, read_name(cursor, fmt::format("name of tensor {}", i)));
    const std::string field = "tensor " + in_quotes(tensor.name);
    PACELINE_ASSIGN_OR_RETURN(tensor.shape, read_shape(cursor, field));
    PACELINE_ASSIGN_OR_RETURN(tensor.type, read_tensor_type(cursor, field));
    PACELINE_ASSIGN_OR_RETURN(const auto offset, cursor.number<std::uint64_t>(field));
    PACELINE_ASSIGN_OR_RETURN(tensor.size_bytes, tensor_bytes(tensor, field));
    if (!names.insert(tensor.name).second) {
      return fail(ErrorCode::kDataLoss, "{}: is there twice, expected once", field);
    }
    contents.tensors.push_back(std::move(tensor));
    contents.tensor_offsets.push_back(offset);
  }
  return {};
}

Result<std::uint64_t> read_alignment(const GgufContents& contents) {
  const auto found = contents.values.find("general.alignment");
  if (found == contents.values.end()) return kDefaultAlignment;
  const GgufValue& value = found->second;
  if (value.type != GgufType::kU32) {
    return fail(ErrorCode::kDataLoss, "metadata \"general.alignment\": is of type {}, expected u32",
                to_string(value.type));
  }
  ByteCursor cursor(value.bytes);
  PACELINE_ASSIGN_OR_RETURN(const auto alignment, cursor.number<std::uint32_t>("alignment"));
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    return fail(ErrorCode::kDataLoss,
                "metadata \"general.alignment\": is {}, expected a power of two up to {}",
                alignment, kMaxAlignment);
  }
  return alignment;
}

/// Makes the offsets absolute and checks that each tensor lies in the file, apart from the others.
Status place_tensors(std::uint64_t table_end, std::uint64_t file_bytes, GgufContents& contents) {
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t alignment, read_alignment(contents));
  const std::uint64_t data_begin = (table_end + alignment - 1) / alignment * alignment;
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    const TensorInfo& tensor = contents.tensors[i];
    std::uint64_t& offset = contents.tensor_offsets[i];
    if (offset % alignment != 0) {
      return fail(ErrorCode::kDataLoss, "tensor {}: has the offset {}, expected a multiple of {}",
                  in_quotes(tensor.name), offset, alignment);
    }
    const auto begin = checked_add(offset, data_begin);
    const auto end = begin ? checked_add(*begin, tensor.size_bytes) : std::nullopt;
    if (!end || *end > file_bytes) {
      return fail(ErrorCode::kDataLoss,
                  "tensor {}: has {} bytes at offset {} of the tensor data, the file ends at {}",
                  in_quotes(tensor.name), tensor.size_bytes, offset,
                  file_bytes - std::min(file_bytes, data_begin));
    }
    offset = *begin;
  }
  std::vector<std::size_t> order(contents.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return contents.tensor_offsets[a] < contents.tensor_offsets[b];
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = contents.tensors[order[i - 1]];
    if (contents.tensor_offsets[order[i - 1]] + before.size_bytes >
        contents.tensor_offsets[order[i]]) {
      return fail(ErrorCode::kDataLoss, "tensor {}: overlaps tensor {}", in_quotes(before.name),
                  in_quotes(contents.tensors[order[i]].name));
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(GgufType type) { return kTypes[static_cast<std::size_t>(type)].name; }

std::size_t size_bytes(GgufType type) { return kTypes[static_cast<std::size_t>(type)].size_bytes; }

Result<GgufContents> parse_gguf(std::span<const std::byte> file) {
  ByteCursor cursor(file);
  PACELINE_ASSIGN_OR_RETURN(const Header header, read_header(cursor));
  GgufContents contents;
  PACELINE_RETURN_IF_ERROR(read_values(cursor, file, header.values, contents));
  PACELINE_RETURN_IF_ERROR(read_tensors(cursor, header.tensors, contents));
  PACELINE_RETURN_IF_ERROR(place_tensors(cursor.position(), file.size(), contents));
  return contents;
}

}  // namespace paceline::model
