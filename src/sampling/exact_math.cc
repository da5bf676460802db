#include "sampling/exact_math.h"

#include <bit>
#include <cstdint>

namespace paceline::sampling {
namespace {

// ln 2 as the sum of a part with trailing zeros (so that its multiples are exact) and the rest.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// 2 atanh(s) = ln((1 + s) / (1 - s)) by its series; |s| <= .172 leaves 1e-17.
double two_atanh(double s) {
  const double square = s * s;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum;
}

}  // namespace

double exact_exp(double x) {
  if (!(x > -700)) return 0;
  // x = n ln 2 + r, |r| <= ln 2 / 2. Adding and taking away 1.5 * 2^52 rounds to an integer.
  constexpr double kRound = 0x1.8p52;
  const double n = (x * 0x1.71547652b82fep0 + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  // Taylor's series; .35^14 / 14! is 5e-18.
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  const auto exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023);
  return sum * std::bit_cast<double>(exponent << 52);
}

double exact_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  if (mantissa > 0x1.6a09e667f3bcdp0) {  // sqrt(2)
    mantissa *= 0.5;
    exponent += 1;
  }
  const double fraction = two_atanh((mantissa - 1) / (mantissa + 1));
  return exponent * kLn2High + (fraction + exponent * kLn2Low);
}

double exact_minus_log1m(double v) {
  // 1 - v is exact where v is a multiple of 2^-53, as the random numbers are.
  if (v > 0.25) return -exact_log(1 - v);
  return two_atanh(v / (2 - v));
}

}  // namespace paceline::sampling
