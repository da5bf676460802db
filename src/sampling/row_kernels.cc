#include "sampling/row_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// A body below is inlined into one function per instruction set and vectorized there. (Function
// multiversioning by the compiler needs ifuncs, which sanitizers do not survive.)
#define PACELINE_INLINE inline __attribute__((always_inline))

namespace paceline::sampling {
namespace {

/// Integers in the order of floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN. Maxima of integers are
/// vectorized; those of floats are not, for the sake of NaNs.
PACELINE_INLINE std::int32_t to_key(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
PACELINE_INLINE float from_key(std::int32_t key) {
  return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff));
}

struct KeyRange {
  std::int32_t low = std::numeric_limits<std::int32_t>::max();
  std::int32_t high = std::numeric_limits<std::int32_t>::min();
};

PACELINE_INLINE KeyRange key_range(const float* values, std::size_t count) {
  KeyRange range;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t key = to_key(values[i]);
    range.low = std::min(range.low, key);
    range.high = std::max(range.high, key);
  }
  return range;
}

PACELINE_INLINE RowScan scan_body(std::span<const float> logits, float* block_max) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  KeyRange all;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::size_t count = logits.size() - begin;
    // A constant is what the compiler can unroll by.
    const KeyRange range = count >= kBlock ? key_range(logits.data() + begin, kBlock)
                                           : key_range(logits.data() + begin, count);
    *block_max++ = from_key(range.high);
    all.low = std::min(all.low, range.low);
    all.high = std::max(all.high, range.high);
  }
  RowScan scan;
  scan.max = from_key(all.high);
  scan.is_sound = !logits.empty() && all.high < to_key(kInfinity) &&
                  all.high > to_key(-kInfinity) && all.low >= to_key(-kInfinity);
  return scan;
}

PACELINE_INLINE LogitRange range_body(std::span<const float> logits) {
  const KeyRange range = key_range(logits.data(), logits.size());
  return {from_key(range.low), from_key(range.high)};
}

/// round(e^x 2^kWeightBits). x = n ln 2 + r, |r| <= ln 2 / 2, and e^r by Taylor's series, whose
/// rest is .35^12 / 12! = 7e-15: less than a unit.
PACELINE_INLINE std::uint64_t weight_of(float logit, Tempering tempering) {
  constexpr double kNothing = -40;  // its weight is 0
  constexpr double kRound = 0x1.8p52;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  double x = (double{logit} - tempering.max) / tempering.temperature;
  x = x > kNothing ? x : kNothing;
  const double shifted = x * 0x1.71547652b82fep0 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 1.0 / 2;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  // n stands in the lowest bits of `shifted`; it and kWeightBits go into the exponent.
  const std::uint64_t exponent = (std::bit_cast<std::uint64_t>(shifted) + kWeightBits) << 52;
  const double scaled = std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum) + exponent);
  // At 2^52 the last bit of a double is 1.
  return std::bit_cast<std::uint64_t>(scaled + 0x1p52) & 0xfffffffffffffULL;
}

PACELINE_INLINE std::uint64_t total_weight_body(std::span<const float> logits,
                                                Tempering tempering) {
  std::uint64_t total = 0;
  for (const float logit : logits) total += weight_of(logit, tempering);
  return total;
}

PACELINE_INLINE void weights_body(std::span<const float> logits, Tempering tempering,
                                  std::uint64_t* out) {
  for (std::size_t i = 0; i < logits.size(); ++i) out[i] = weight_of(logits[i], tempering);
}

PACELINE_INLINE void buckets_body(std::span<const float> logits, Buckets buckets,
                                  std::int32_t* out) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    out[i] = static_cast<std::int32_t>((buckets.high - double{logits[i]}) * buckets.per_unit);
  }
}

using Lanes = std::array<std::uint64_t, kBlock>;
using Words = std::array<std::uint64_t, kBlock>;

#define PHILOX_NAME philox_plain
#define PHILOX_TARGET
#define PHILOX_LANES 2
#if defined(__x86_64__)
#define PHILOX_PRODUCT(a, b) (Vector) _mm_mul_epu32((__m128i)(a), (__m128i)(b))
#else
#define PHILOX_PRODUCT(a, b) ((a)&0xffffffffU) * (b)
#endif
#include "sampling/philox_lanes.inc"

#if defined(__x86_64__)
#define AVX2_TARGET __attribute__((target("avx2")))
#define PHILOX_NAME philox_avx2
#define PHILOX_TARGET AVX2_TARGET
#define PHILOX_LANES 4
#define PHILOX_PRODUCT(a, b) (Vector) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#include "sampling/philox_lanes.inc"

#if defined(__clang__)
#define AVX512_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define AVX512_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define PHILOX_NAME philox_avx512
#define PHILOX_TARGET AVX512_TARGET
#define PHILOX_LANES 8
#define PHILOX_PRODUCT(a, b) (Vector) _mm512_maskz_mul_epu32(0xff, (__m512i)(a), (__m512i)(b))
#include "sampling/philox_lanes.inc"
#endif

/// Compiled for all; philox is called, not inlined.
using Philox = void (*)(const Lanes&, std::size_t, const NoiseKey&, Words&, Words&);

PACELINE_INLINE std::uint32_t noise_body(Philox philox, std::span<const std::uint32_t> tokens,
                                         const NoiseKey& key, std::uint64_t* out) {
  Lanes counters = {};
  Words even;
  Words odd;
  for (std::size_t i = 0; i < tokens.size(); ++i) counters[i] = tokens[i] / 2;
  philox(counters, tokens.size(), key, even, odd);
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    out[i] = tokens[i] % 2 == 0 ? even[i] : odd[i];
    least = std::min(least, static_cast<std::uint32_t>(out[i] >> 32));
  }
  return least;
}

PACELINE_INLINE std::uint32_t noise_range_body(Philox philox, std::uint32_t first,
                                               const NoiseKey& key, std::uint64_t* out) {
  constexpr std::uint32_t kPairs = kBlock / 2;
  Lanes counters;
  Words even;
  Words odd;
  for (std::uint32_t i = 0; i < kPairs; ++i) counters[i] = first / 2 + i;
  philox(counters, kPairs, key, even, odd);
  for (std::size_t i = 0; i < kPairs; ++i) {
    out[2 * i] = even[i];
    out[2 * i + 1] = odd[i];
  }
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t i = 0; i < kBlock; ++i) {
    least = std::min(least, static_cast<std::uint32_t>(out[i] >> 32));
  }
  return least;
}

/// The functions of one instruction set, and their table.
#define PACELINE_KERNELS(NAME, TARGET, PHILOX)                                                    \
  struct NAME {                                                                                   \
    TARGET static RowScan scan(std::span<const float> logits, float* block_max) {                 \
      return scan_body(logits, block_max);                                                        \
    }                                                                                             \
    TARGET static LogitRange range(std::span<const float> logits) { return range_body(logits); }  \
    TARGET static std::uint64_t total_weight(std::span<const float> logits, Tempering t) {        \
      return total_weight_body(logits, t);                                                        \
    }                                                                                             \
    TARGET static void weights(std::span<const float> logits, Tempering t, std::uint64_t* out) {  \
      weights_body(logits, t, out);                                                               \
    }                                                                                             \
    TARGET static void buckets(std::span<const float> logits, Buckets b, std::int32_t* out) {     \
      buckets_body(logits, b, out);                                                               \
    }                                                                                             \
    TARGET static std::uint32_t noise(std::span<const std::uint32_t> tokens, const NoiseKey& key, \
                                      std::uint64_t* out) {                                       \
      return noise_body(PHILOX, tokens, key, out);                                                \
    }                                                                                             \
    TARGET static std::uint32_t noise_range(std::uint32_t first, const NoiseKey& key,             \
                                            std::uint64_t* out) {                                 \
      return noise_range_body(PHILOX, first, key, out);                                           \
    }                                                                                             \
    static constexpr RowKernels kTable = {#NAME,   scan,    range, total_weight,                  \
                                          weights, buckets, noise, noise_range};                  \
  }

PACELINE_KERNELS(Plain, , philox_plain);
#if defined(__x86_64__)
PACELINE_KERNELS(Avx2, AVX2_TARGET, philox_avx2);
PACELINE_KERNELS(Avx512, AVX512_TARGET, philox_avx512);
#endif

std::vector<RowKernels> supported() {
  std::vector<RowKernels> kernels = {Plain::kTable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) kernels.push_back(Avx2::kTable);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    kernels.push_back(Avx512::kTable);
  }
#endif
  return kernels;
}

}  // namespace

std::span<const RowKernels> all_row_kernels() {
  static const std::vector<RowKernels> kernels = supported();
  return kernels;
}

const RowKernels& row_kernels() { return all_row_kernels().back(); }

}  // namespace paceline::sampling
