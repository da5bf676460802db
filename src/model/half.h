// 16-bit and 8-bit floating point numbers as bits, without a dependency on OpenVINO or the
// compiler's own.
#pragma once

#include <bit>
#include <cstdint>

namespace paceline::model {

/// IEEE 754 binary16 to float, exact for every value.
inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xffU : exponent + 112;
  return std::bit_cast<float>(sign | (widened << 23) | (mantissa << 13));
}

/// Float to the nearest binary16, ties to even; what is too large becomes infinity.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const auto with_sign = [sign](std::uint32_t rest) {
    return static_cast<std::uint16_t>(sign | rest);
  };
  if (magnitude > 0x7f800000U) return with_sign(0x7e00U);   // NaN
  if (magnitude >= 0x477ff000U) return with_sign(0x7c00U);  // rounds beyond 65504
  if (magnitude < 0x38800000U) {  // subnormal: the float adder rounds to a multiple of 2^-24
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    return with_sign(std::bit_cast<std::uint32_t>(aligned) - std::bit_cast<std::uint32_t>(0.5F));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return with_sign((magnitude - (112U << 23) + 0xfffU + odd) >> 13);
}

inline float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Float to the nearest bfloat16, ties to even.
inline std::uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0U;  // NaN
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// FP8 E4M3 in the kind that has no infinities: 0x7f and 0xff are NaN, the largest is 448.
inline float f8e4m3_to_float(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
  const std::uint32_t magnitude = bits & 0x7fU;
  if (magnitude == 0x7fU) return std::bit_cast<float>(sign | 0x7fc00000U);
  if (magnitude < 8) {  // zero or subnormal: mantissa * 2^-9
    const float value = static_cast<float>(magnitude) * 0x1p-9F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120U << 23)));
}

}  // namespace paceline::model
