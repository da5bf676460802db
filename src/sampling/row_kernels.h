// The loops over a whole vocabulary, each compiled for several instruction sets and chosen at run
// time. All variants give the same bits: integer arithmetic, or IEEE operations on each element by
// itself; there are no sums of floating-point numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace paceline::sampling {

/// Rows are looked at in blocks of this many entries.
inline constexpr std::size_t kBlock = 64;
/// An entry's weight is e^x in units of 2^-kWeightBits, so that sums are exact in any order.
inline constexpr int kWeightBits = 43;
/// 2^63 / 2^kWeightBits: the weights of a row fit into 64 bits.
inline constexpr std::size_t kMaxEntries = std::size_t{1} << 20;

/// What a row holds.
struct RowScan {
  float max = 0;          ///< of all entries
  bool is_sound = false;  ///< each is finite or -inf, and one is finite
};

struct LogitRange {
  float low = 0;
  float high = 0;
};

/// x = (logit - max) / temperature, of which the weight is e^x.
struct Tempering {
  double max = 0;
  double temperature = 1;
};

/// Equal parts of [high, low] of the logits, numbered from `high` down.
struct Buckets {
  double high = 0;
  double per_unit = 0;
};

/// What a position's noise depends on besides the token (counter_random.h).
struct NoiseKey {
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 3> counter;  ///< choice, position low and high
};

struct RowKernels {
  std::string_view name;
  /// `block_max` gets the highest entry of each block: (n + kBlock - 1) / kBlock numbers.
  RowScan (*scan)(std::span<const float> logits, float* block_max);
  /// Of at least one logit, none of them NaN.
  LogitRange (*range)(std::span<const float> logits);
  /// The weights' sum; at most kMaxEntries.
  std::uint64_t (*total_weight)(std::span<const float> logits, Tempering tempering);
  void (*weights)(std::span<const float> logits, Tempering tempering, std::uint64_t* out);
  void (*buckets)(std::span<const float> logits, Buckets buckets, std::int32_t* out);
  /// 64 bits of noise for each of at most kBlock tokens; gives the least of their upper halves.
  std::uint32_t (*noise)(std::span<const std::uint32_t> tokens, const NoiseKey& key,
                         std::uint64_t* out);
  /// The same for the kBlock tokens from `first`, which is even.
  std::uint32_t (*noise_range)(std::uint32_t first, const NoiseKey& key, std::uint64_t* out);
};

/// The best for this machine.
const RowKernels& row_kernels();
/// All that run on this machine, the plain one first.
std::span<const RowKernels> all_row_kernels();

}  // namespace paceline::sampling
