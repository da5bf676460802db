#include "sampling/exact_math.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace paceline::sampling {
namespace {

// ln 2 as the sum of a part with trailing zeros (so that its multiples are exact) and the rest.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

constexpr int kSteps = 64;

/// 2^(i / 64), by Taylor's series of e^(i ln 2 / 64), when the compiler runs.
constexpr std::array<double, kSteps> powers_of_two() {
  std::array<double, kSteps> powers = {};
  for (int i = 0; i < kSteps; ++i) {
    const double x = i * (kLn2High / kSteps) + i * (kLn2Low / kSteps);
    double sum = 1;
    for (int k = 22; k >= 1; --k) sum = 1 + sum * x / k;
    powers[static_cast<std::size_t>(i)] = sum;
  }
  return powers;
}
constexpr std::array<double, kSteps> kPowers = powers_of_two();

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
  // x = n ln 2 / 64 + r, |r| <= ln 2 / 128. Adding and taking away 1.5 * 2^52 rounds to an integer.
  constexpr double kRound = 0x1.8p52;
  const double n = (x * (kSteps * 0x1.71547652b82fep0) + kRound) - kRound;
  const double r = (x - n * (kLn2High / kSteps)) - n * (kLn2Low / kSteps);
  // e^r - 1 by Taylor's series; .0055^6 / 6! is 4e-17.
  const double square = r * r;
  const double rest =
      r + square * (0.5 + r * (1.0 / 6.0)) + square * square * (1.0 / 24.0 + r * (1.0 / 120.0));
  const auto steps = static_cast<std::int64_t>(n);
  const double power = kPowers[static_cast<std::size_t>(steps & (kSteps - 1))];
  const auto exponent = static_cast<std::uint64_t>((steps >> 6) + 1023);
  return (power + power * rest) * std::bit_cast<double>(exponent << 52);
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
