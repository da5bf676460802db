// Arithmetic on numbers from foreign bytes: nullopt instead of an overflow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace paceline {

inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The number of elements of a shape.
inline std::optional<std::uint64_t> checked_product(std::span<const std::uint64_t> shape) {
  std::uint64_t product = 1;
  for (const std::uint64_t dimension : shape) {
    const auto next = checked_multiply(product, dimension);
    if (!next) return std::nullopt;
    product = *next;
  }
  return product;
}

}  // namespace paceline
