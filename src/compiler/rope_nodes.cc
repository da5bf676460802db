#include "compiler/rope_nodes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <openvino/opsets/opset13.hpp>

#include "base/check.h"
#include "compiler/decoder_nodes.h"

namespace paceline::compiler {
namespace {

namespace op = ov::opset13;
using model::RopeConfig;
using model::RopeScaling;

/// theta^(-2i/R), rounded where Hugging Face rounds.
float plain_frequency(const RopeConfig& rope, std::size_t i, std::uint32_t dimensions) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(dimensions);
  const auto wavelength =
      static_cast<float>(std::pow(static_cast<double>(rope.theta), static_cast<double>(exponent)));
  return 1.0F / wavelength;
}

/// Low frequencies are divided by `factor`, high ones stay, and between them it is gradual.
float llama3_frequency(const RopeConfig& rope, float frequency) {
  const auto context = static_cast<float>(rope.original_context_tokens);
  const float wavelength = 2.0F * std::numbers::pi_v<float> / frequency;
  if (wavelength < context / rope.high_frequency_factor) return frequency;
  if (wavelength > context / rope.low_frequency_factor) return frequency / rope.factor;
  const float smooth = (context / wavelength - rope.low_frequency_factor) /
                       (rope.high_frequency_factor - rope.low_frequency_factor);
  return (1.0F - smooth) * frequency / rope.factor + smooth * frequency;
}

/// The pair that turns `rotations` times within the original context, as a real number.
double yarn_pair(const RopeConfig& rope, std::uint32_t dimensions, double rotations) {
  const double turns = rope.original_context_tokens / (rotations * 2.0 * std::numbers::pi);
  return dimensions * std::log(turns) / (2.0 * std::log(static_cast<double>(rope.theta)));
}

/// Peng et al. 2023: pairs below the ramp keep their frequency, those above it are divided.
float yarn_frequency(const RopeConfig& rope, std::uint32_t dimensions, std::size_t i,
                     float frequency) {
  double low = yarn_pair(rope, dimensions, rope.beta_fast);
  double high = yarn_pair(rope, dimensions, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dimensions - 1.0);
  if (low == high) high += 0.001;
  const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  const auto divided = static_cast<float>(ramp);
  return frequency / rope.factor * divided + frequency * (1.0F - divided);
}

float scaled_frequency(const RopeConfig& rope, std::uint32_t dimensions, std::size_t i) {
  const float frequency = plain_frequency(rope, i, dimensions);
  if (!rope.divisors.empty()) return frequency / rope.divisors[i];
  switch (rope.scaling) {
    case RopeScaling::kLinear:
      return frequency / rope.factor;
    case RopeScaling::kLlama3:
      return llama3_frequency(rope, frequency);
    case RopeScaling::kYarn:
      return yarn_frequency(rope, dimensions, i, frequency);
    case RopeScaling::kNone:
    case RopeScaling::kDynamic:
    case RopeScaling::kLongRope:
      break;
  }
  return frequency;
}

/// Frequencies as a constant [1, R/2, 1].
Output frequency_column(const RopeConfig& rope, std::uint32_t dimensions,
                        const std::vector<float>& factors) {
  return real({1, dimensions / 2, 1}, rope_frequencies(rope, dimensions, factors));
}

/// The largest position of each row [B, 1, 1], i64.
Output last_positions(const Output& position_ids) {
  const Output last = make_node<op::ReduceMax>(position_ids, integers({1}), true);
  return make_node<op::Unsqueeze>(last, integers({2}));
}

/// The base grows with what the length exceeds the trained one by:
/// theta' = theta * (factor * length / trained - (factor - 1))^(R / (R - 2)).
Output dynamic_frequencies(const Output& position_ids, const RopeConfig& rope,
                           std::uint32_t dimensions) {
  const auto trained = static_cast<std::int64_t>(rope.original_context_tokens);
  const Output last = make_node<op::Maximum>(last_positions(position_ids), integer(trained - 1));
  const Output excess =
      make_node<op::Convert>(make_node<op::Subtract>(last, integer(trained - 1)), ov::element::f32);
  // factor * (trained + excess) / trained - (factor - 1), without the cancellation.
  const Output growth = make_node<op::Add>(
      make_node<op::Multiply>(excess, real({}, {rope.factor / static_cast<float>(trained)})),
      real({}, {1.0F}));
  std::vector<float> exponents(dimensions / 2);
  for (std::size_t i = 1; i < exponents.size(); ++i) {
    exponents[i] = -static_cast<float>(2 * i) / static_cast<float>(dimensions - 2);
  }
  const Output shrink = make_node<op::Power>(growth, real({1, exponents.size(), 1}, exponents));
  return make_node<op::Multiply>(shrink, frequency_column(rope, dimensions, {}));
}

Output long_or_short(const Output& position_ids, const RopeConfig& rope, std::uint32_t dimensions) {
  const Output beyond =
      make_node<op::GreaterEqual>(last_positions(position_ids),
                                  integer(static_cast<std::int64_t>(rope.original_context_tokens)));
  return make_node<op::Select>(beyond, frequency_column(rope, dimensions, rope.long_factors),
                               frequency_column(rope, dimensions, rope.short_factors));
}

/// Frequencies [B, R/2, 1] of each row.
Output frequency_rows(const Output& position_ids, const RopeConfig& rope,
                      std::uint32_t dimensions) {
  if (rope.scaling == RopeScaling::kDynamic) {
    return dynamic_frequencies(position_ids, rope, dimensions);
  }
  if (rope.scaling == RopeScaling::kLongRope) return long_or_short(position_ids, rope, dimensions);
  const Output target = make_node<op::Concat>(
      ov::OutputVector{dimension(position_ids, 0), integers({1}), integers({1})}, 0);
  return make_node<op::Broadcast>(frequency_column(rope, dimensions, {}), target,
                                  ov::op::BroadcastType::BIDIRECTIONAL);
}

/// [begin, end) of the last of four dimensions.
Output slice_last(const Output& x, std::int64_t begin, std::int64_t end) {
  return make_node<op::Slice>(x, integers({begin}), integers({end}), integers({1}), integers({3}));
}

}  // namespace

std::vector<float> rope_frequencies(const RopeConfig& rope, std::uint32_t dimensions,
                                    const std::vector<float>& factors) {
  const std::size_t count = dimensions / 2;
  PACELINE_CHECK(rope.divisors.empty() || rope.divisors.size() == count);
  PACELINE_CHECK(factors.empty() || factors.size() == count);
  std::vector<float> frequencies(count);
  for (std::size_t i = 0; i < count; ++i) {
    frequencies[i] = scaled_frequency(rope, dimensions, i);
    if (!factors.empty()) frequencies[i] /= factors[i];
  }
  return frequencies;
}

RopeTables rope_tables(const Output& position_ids, const RopeConfig& rope,
                       std::uint32_t dimensions) {
  const Output positions = make_node<op::Convert>(
      make_node<op::Unsqueeze>(position_ids, integers({1})), ov::element::f32);
  const Output rows = frequency_rows(position_ids, rope, dimensions);
  const Output angles = make_node<op::Transpose>(
      make_node<op::MatMul>(rows, positions, false, false), integers({0, 2, 1}));
  const Output both = make_node<op::Concat>(ov::OutputVector{angles, angles}, -1);
  const auto table = [&](const Output& values) {
    return make_node<op::Unsqueeze>(multiplied(values, rope.attention_factor), integers({1}));
  };
  return {table(make_node<op::Cos>(both)), table(make_node<op::Sin>(both))};
}

Output apply_rope(const Output& x, const RopeTables& tables, std::uint32_t dimensions) {
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  const std::int64_t rotary = dimensions;
  const bool is_partial = rotary < x.get_partial_shape()[3].get_length();
  const Output turned = is_partial ? slice_last(x, 0, rotary) : x;
  const Output negated =
      make_node<op::Multiply>(slice_last(turned, rotary / 2, kEnd), real({1, 1, 1, 1}, {-1.0F}));
  const Output swapped =
      make_node<op::Concat>(ov::OutputVector{negated, slice_last(turned, 0, rotary / 2)}, -1);
  const Output result = make_node<op::Add>(make_node<op::Multiply>(turned, tables.cosine),
                                           make_node<op::Multiply>(swapped, tables.sine));
  if (!is_partial) return result;
  return make_node<op::Concat>(ov::OutputVector{result, slice_last(x, rotary, kEnd)}, -1);
}

}  // namespace paceline::compiler
