#include "wire/int8_rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "wire/limits.h"

namespace paceline::wire {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffU;
constexpr std::uint32_t kInfinity = 0x7f800000U;
constexpr std::uint16_t kNanScale = 0x7fc0U;
constexpr float kMostCode = 127;
/// Adding it leaves no bits for a fraction: the sum's low bits are the nearest integer, ties to
/// even.
constexpr float kRounder = 0x1.8p23F;

using Group = std::array<float, kInt8Group>;

float from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// To the nearest, ties to even; a NaN stays one.
std::uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nearest = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  return static_cast<std::uint16_t>((bits & kMagnitude) > kInfinity ? kNanScale : nearest);
}

struct F32 {
  using Stored = float;
  static float load(Stored stored) { return stored; }
  static Stored store(float value) { return value; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  static float load(Stored stored) { return from_bfloat(stored); }
  static Stored store(float value) { return to_bfloat(value); }
};

/// Of a whole group; callers fill up one that is cut off.
std::uint16_t encode_group(const Group& values, std::array<std::int8_t, kInt8Group>& codes) {
  // Magnitudes order as their bits do, infinities and NaN above all.
  std::uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & kMagnitude);
  }
  // Up to the next bf16, so that no code is beyond 127.
  const float step = std::bit_cast<float>(largest) / kMostCode;
  const std::uint32_t scale = (std::bit_cast<std::uint32_t>(step) + 0xffffU) >> 16U;
  const float used = from_bfloat(static_cast<std::uint16_t>(scale));
  if (largest >= kInfinity || used < FLT_MIN) {
    codes.fill(0);
    return largest >= kInfinity ? kNanScale : std::uint16_t{0};
  }
  const float inverse = 1 / used;
  for (std::size_t i = 0; i < kInt8Group; ++i) {
    const auto sum = std::bit_cast<std::int32_t>(values[i] * inverse + kRounder);
    codes[i] = static_cast<std::int8_t>(sum - std::bit_cast<std::int32_t>(kRounder));
  }
  return static_cast<std::uint16_t>(scale);
}

std::uint64_t groups_of(std::uint64_t values) {
  return values / kInt8Group + (values % kInt8Group > 0 ? 1 : 0);
}

/// Codes of the row, then its scales.
template <typename Type>
void encode_row(const std::byte* in, std::uint64_t width, std::byte* out) {
  using Stored = typename Type::Stored;
  std::byte* scales = out + width;
  for (std::uint64_t begin = 0; begin < width; begin += kInt8Group) {
    const std::size_t count = std::min(kInt8Group, width - begin);
    std::array<Stored, kInt8Group> stored = {};
    std::memcpy(stored.data(), in + begin * sizeof(Stored), count * sizeof(Stored));
    Group values;
    for (std::size_t i = 0; i < kInt8Group; ++i) values[i] = Type::load(stored[i]);
    std::array<std::int8_t, kInt8Group> codes;
    const std::uint16_t scale = encode_group(values, codes);
    std::memcpy(out + begin, codes.data(), count);
    std::memcpy(scales + begin / kInt8Group * sizeof(scale), &scale, sizeof(scale));
  }
}

template <typename Type>
void decode_row(const std::byte* in, std::uint64_t width, std::byte* out) {
  using Stored = typename Type::Stored;
  const std::byte* scales = in + width;
  for (std::uint64_t begin = 0; begin < width; begin += kInt8Group) {
    const std::size_t count = std::min(kInt8Group, width - begin);
    std::uint16_t bits = 0;
    std::memcpy(&bits, scales + begin / kInt8Group * sizeof(bits), sizeof(bits));
    const float scale = from_bfloat(bits);
    std::array<std::int8_t, kInt8Group> codes = {};
    std::memcpy(codes.data(), in + begin, count);
    std::array<Stored, kInt8Group> values;
    for (std::size_t i = 0; i < kInt8Group; ++i) {
      values[i] = Type::store(scale * static_cast<float>(codes[i]));
    }
    std::memcpy(out + begin * sizeof(Stored), values.data(), count * sizeof(Stored));
  }
}

/// Of `rows` rows with so many bytes each, before and after.
template <typename RowFunction>
std::vector<std::byte> each_row(std::span<const std::byte> in, std::uint64_t rows,
                                std::uint64_t in_bytes, std::uint64_t out_bytes,
                                const RowFunction& convert) {
  std::vector<std::byte> out(rows * out_bytes);
  for (std::uint64_t row = 0; row < rows; ++row) {
    convert(in.data() + row * in_bytes, out.data() + row * out_bytes);
  }
  return out;
}

/// The product; nothing where it is 0 or more than a frame may hold.
std::optional<std::uint64_t> values_of(std::span<const std::uint64_t> shape) {
  const auto product = checked_product(shape);
  if (!product || *product == 0 || *product > Limits().payload_bytes) return std::nullopt;
  return product;
}

}  // namespace

bool has_int8_rows(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBF16;
}

std::uint64_t int8_row_bytes(std::uint64_t values) {
  return values + groups_of(values) * sizeof(std::uint16_t);
}

Result<Tensor> to_int8(const Tensor& native) {
  if (!has_int8_rows(native.type)) {
    return fail(ErrorCode::kUnimplemented,
                "boundary tensor {} is of type {}: int8 links have f32 and bf16", native.name,
                to_string(native.type));
  }
  const auto all = values_of(native.shape);
  if (!all || native.data.size() != *all * size_bytes(native.type)) {
    return fail(ErrorCode::kInvalidArgument, "boundary tensor {} has {} bytes for shape [{}]",
                native.name, native.data.size(), fmt::join(native.shape, ", "));
  }
  const std::uint64_t rows = native.shape.front();
  const std::uint64_t width = *all / rows;
  const std::uint64_t coded_bytes = int8_row_bytes(width);
  const auto convert = [&](const std::byte* in, std::byte* out) {
    native.type == ElementType::kF32 ? encode_row<F32>(in, width, out)
                                     : encode_row<Bf16>(in, width, out);
  };
  Tensor coded = {native.name, ElementType::kI8, {rows, coded_bytes}, {}};
  coded.data = SharedBytes::own(
      each_row(native.data.bytes(), rows, width * size_bytes(native.type), coded_bytes, convert));
  return coded;
}

Result<Tensor> from_int8(const Tensor& coded, const BoundarySpec& expected) {
  const auto width = values_of(expected.row_shape);
  if (!width || !has_int8_rows(expected.type)) {
    return fail(
        ErrorCode::kUnimplemented,
        "boundary tensor {} has rows of type {} and shape [{}], which have no code in 8 bits",
        expected.name, to_string(expected.type), fmt::join(expected.row_shape, ", "));
  }
  const std::uint64_t coded_bytes = int8_row_bytes(*width);
  if (coded.type != ElementType::kI8 || coded.shape.size() != 2 || coded.shape[1] != coded_bytes) {
    return fail(ErrorCode::kInvalidArgument,
                "boundary tensor {} is of type {} and shape [{}], i8 and [rows, {}] are expected",
                coded.name, to_string(coded.type), fmt::join(coded.shape, ", "), coded_bytes);
  }
  const std::uint64_t rows = coded.shape[0];
  const std::uint64_t row_bytes = *width * size_bytes(expected.type);
  if (rows > Limits().payload_bytes / row_bytes) {
    return fail(ErrorCode::kResourceExhausted,
                "boundary tensor {} has {} rows of {} bytes, at most {} bytes are taken",
                coded.name, rows, row_bytes, Limits().payload_bytes);
  }
  if (coded.data.size() != rows * coded_bytes) {
    return fail(ErrorCode::kInvalidArgument, "boundary tensor {} has {} bytes for shape [{}]",
                coded.name, coded.data.size(), fmt::join(coded.shape, ", "));
  }
  const auto convert = [&](const std::byte* in, std::byte* out) {
    expected.type == ElementType::kF32 ? decode_row<F32>(in, *width, out)
                                       : decode_row<Bf16>(in, *width, out);
  };
  Tensor native = {coded.name, expected.type, {rows}, {}};
  native.shape.insert(native.shape.end(), expected.row_shape.begin(), expected.row_shape.end());
  native.data =
      SharedBytes::own(each_row(coded.data.bytes(), rows, coded_bytes, row_bytes, convert));
  return native;
}

}  // namespace paceline::wire
