#include "sampling/sampling_spec.h"

#include <cmath>
#include <string_view>

namespace paceline::sampling {
namespace {

/// Beyond these a finite logit might overflow.
constexpr double kLowestRepetition = 0.01;
constexpr double kHighestRepetition = 100;
constexpr float kHighestBias = 100;
constexpr double kHighestPenalty = 2;

Status check_range(std::string_view field, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: expected a number from {} to {}, got {}", field,
              low, high, value);
}

Status check_token(std::string_view field, std::uint32_t token, std::uint64_t vocabulary_size) {
  if (token < vocabulary_size) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: token {} is outside the vocabulary of {}", field,
              token, vocabulary_size);
}

Status check_grammar(const SamplingSpec& spec) {
  if (spec.grammar->text.size() > GrammarSpec::kMaxTextBytes) {
    return fail(ErrorCode::kInvalidArgument, "grammar: expected at most {} bytes, got {}",
                GrammarSpec::kMaxTextBytes, spec.grammar->text.size());
  }
  // A text that is whole before would have no token to go on with.
  if (spec.min_tokens == 0) return {};
  return fail(ErrorCode::kInvalidArgument, "min_tokens: expected 0 with a grammar, got {}",
              spec.min_tokens);
}

}  // namespace

Status check(const SamplingSpec& spec) {
  if (!std::isfinite(spec.temperature) || spec.temperature < 0) {
    return fail(ErrorCode::kInvalidArgument, "temperature: expected a number of at least 0, got {}",
                spec.temperature);
  }
  if (!(spec.top_p > 0 && spec.top_p <= 1)) {
    return fail(ErrorCode::kInvalidArgument,
                "top_p: expected a number above 0 and of at most 1, got {}", spec.top_p);
  }
  PACELINE_RETURN_IF_ERROR(check_range("min_p", spec.min_p, 0, 1));
  PACELINE_RETURN_IF_ERROR(check_range("repetition_penalty", spec.repetition_penalty,
                                       kLowestRepetition, kHighestRepetition));
  PACELINE_RETURN_IF_ERROR(
      check_range("presence_penalty", spec.presence_penalty, -kHighestPenalty, kHighestPenalty));
  PACELINE_RETURN_IF_ERROR(
      check_range("frequency_penalty", spec.frequency_penalty, -kHighestPenalty, kHighestPenalty));
  for (const LogitBias& entry : spec.logit_bias) {
    if (std::isinf(entry.bias) && entry.bias < 0) continue;
    PACELINE_RETURN_IF_ERROR(check_range("logit_bias", entry.bias, -kHighestBias, kHighestBias));
  }
  if (spec.logprobs.value_or(0) > SamplingSpec::kMaxLogprobs) {
    return fail(ErrorCode::kInvalidArgument, "logprobs: expected at most {}, got {}",
                SamplingSpec::kMaxLogprobs, *spec.logprobs);
  }
  return spec.grammar ? check_grammar(spec) : Status();
}

Status check(const SamplingSpec& spec, std::uint64_t vocabulary_size) {
  PACELINE_RETURN_IF_ERROR(check(spec));
  for (const LogitBias& entry : spec.logit_bias) {
    PACELINE_RETURN_IF_ERROR(check_token("logit_bias", entry.token, vocabulary_size));
  }
  for (const std::uint32_t token : spec.stop_tokens) {
    PACELINE_RETURN_IF_ERROR(check_token("stop_tokens", token, vocabulary_size));
  }
  return {};
}

}  // namespace paceline::sampling
