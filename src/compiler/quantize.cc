#include "compiler/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "model/half.h"

namespace paceline::compiler {
namespace {

struct GroupsToQuantize {
  const float* values;
  QuantKind kind;
  std::size_t group;  ///< elements of one
  std::size_t count;
  bool search;
  std::int8_t* quants;
  std::uint16_t* scales;
  std::uint8_t* zero_points;  ///< or null
};

/// How much finer than max-abs would have it the tried steps are. Wider steps win now and then.
constexpr float kFiner[] = {0.86F, 0.90F, 0.94F, 0.97F, 1.00F, 1.03F, 1.06F, 1.09F, 1.12F, 1.15F,
                            1.18F, 1.21F, 1.24F, 1.28F, 1.32F, 1.37F, 1.43F, 1.50F, 1.60F, 1.75F};

/// The same functions compiled for one kind of CPU.
struct Kernels {
  QuantStatus (*int4)(const GroupsToQuantize&, ErrorSums&);
  QuantStatus (*int8)(const GroupsToQuantize&, ErrorSums&);
  void (*measure)(const float*, const float*, std::size_t, ErrorSums&);
  void (*widen_halves)(const std::byte*, float*, std::size_t);
  void (*widen_bfloats)(const std::byte*, float*, std::size_t);
  void (*pack)(const std::int8_t*, std::size_t, std::byte*);
};

namespace plain {
#include "compiler/quantize_lanes.h"

#include "compiler/quantize_kernels.h"

#include "compiler/quantize_int4.h"
constexpr Kernels kKernels = {quantize_int4, quantize_int8, measure,
                              widen_halves,  widen_bfloats, pack};
}  // namespace plain

#if defined(__x86_64__) && !defined(__clang__)
#define PACELINE_SEVERAL_CPUS 1
#pragma GCC push_options
#pragma GCC target("avx2")
namespace avx2 {
#include "compiler/quantize_lanes.h"

#include "compiler/quantize_kernels.h"

#include "compiler/quantize_int4.h"
constexpr Kernels kKernels = {quantize_int4, quantize_int8, measure,
                              widen_halves,  widen_bfloats, pack};
}  // namespace avx2
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
namespace avx512 {
#include "compiler/quantize_lanes.h"

#include "compiler/quantize_kernels.h"

#include "compiler/quantize_int4.h"
constexpr Kernels kKernels = {quantize_int4, quantize_int8, measure,
                              widen_halves,  widen_bfloats, pack};
}  // namespace avx512
#pragma GCC pop_options
#endif

const Kernels& kernels() {
#ifdef PACELINE_SEVERAL_CPUS
  static const Kernels& chosen = []() -> const Kernels& {
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (wide) return avx512::kKernels;
    return __builtin_cpu_supports("avx2") ? avx2::kKernels : plain::kKernels;
  }();
  return chosen;
#else
  return plain::kKernels;
#endif
}

}  // namespace

void ErrorSums::add(const ErrorSums& other) {
  squares += other.squares;
  error_squares += other.error_squares;
  weighted_squares += other.weighted_squares;
  weighted_error_squares += other.weighted_error_squares;
  largest_value = std::max(largest_value, other.largest_value);
  largest_error = std::max(largest_error, other.largest_error);
}

double ErrorSums::relative() const {
  return squares > 0.0 ? std::sqrt(error_squares / squares) : 0.0;
}

double ErrorSums::weighted_relative() const {
  return weighted_squares > 0.0 ? std::sqrt(weighted_error_squares / weighted_squares) : 0.0;
}

QuantStatus quantize(std::span<const float> values, const QuantOptions& options,
                     const QuantResult& result, ErrorSums& sums) {
  const bool has_zero_points = options.kind == QuantKind::kInt4Asymmetric;
  PACELINE_CHECK(result.scales.size() * options.group == values.size());
  PACELINE_CHECK(result.quants.size() == values.size());
  PACELINE_CHECK(result.zero_points.size() == (has_zero_points ? result.scales.size() : 0));
  const GroupsToQuantize work = {
      values.data(),        options.kind,
      options.group,        result.scales.size(),
      options.search,       result.quants.data(),
      result.scales.data(), has_zero_points ? result.zero_points.data() : nullptr};
  if (options.kind == QuantKind::kInt8) return kernels().int8(work, sums);
  PACELINE_CHECK(options.group <= plain::kLargestGroup && options.group % plain::kLanes == 0);
  return kernels().int4(work, sums);
}

void measure_errors(std::span<const float> values, std::span<const float> stored, std::size_t group,
                    ErrorSums& sums) {
  PACELINE_CHECK(stored.size() == values.size() && values.size() % group == 0);
  for (std::size_t begin = 0; begin < values.size(); begin += group) {
    kernels().measure(values.data() + begin, stored.data() + begin, group, sums);
  }
}

void widen_half(const std::byte* bits, std::span<float> values) {
  kernels().widen_halves(bits, values.data(), values.size());
}

void widen_bfloat(const std::byte* bits, std::span<float> values) {
  kernels().widen_bfloats(bits, values.data(), values.size());
}

void pack_nibbles(std::span<const std::int8_t> quants, std::byte* packed) {
  PACELINE_CHECK(quants.size() % 2 == 0);
  kernels().pack(quants.data(), quants.size() / 2, packed);
}

}  // namespace paceline::compiler
