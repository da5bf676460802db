// How a sequence's tokens are chosen. Sent once, when the sequence is opened.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/grammar_spec.h"

namespace paceline::sampling {

struct LogitBias {
  std::uint32_t token = 0;
  float bias = 0;  ///< added to the logit, -100 to 100; -infinity: the token is never chosen
  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

/// What is done with the logits, in this order: logit_bias, min_tokens, repetition_penalty,
/// presence_ and frequency_penalty, temperature, then the cuts min_p, top_k, top_p.
struct SamplingSpec {
  static constexpr std::uint32_t kMaxLogprobs = 20;

  double temperature = 0.0;  ///< 0: greedy (the highest logit, the lowest id among equals)
  double top_p = 1.0;        ///< keep the likeliest tokens up to this probability mass
  std::uint32_t top_k = 0;   ///< keep the k likeliest; 0: all
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;  ///< which of n answers to one prompt
  double min_p = 0.0;        ///< keep tokens of at least this share of the likeliest's probability
  /// Tokens of the prompt and of the answer: a positive logit is divided by it, another multiplied.
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;   ///< taken off the logit of each token of the answer, -2 to 2
  double frequency_penalty = 0.0;  ///< the same, times how often the answer has it, -2 to 2
  std::vector<LogitBias> logit_bias;
  /// End the answer, and are its last token. The model's own end tokens are among them unless they
  /// are ignored.
  std::vector<std::uint32_t> stop_tokens;
  std::uint32_t min_tokens = 0;  ///< no stop token before the answer has this many
  /// Log-probabilities of the chosen token and of this many likeliest ones, at most kMaxLogprobs.
  /// They are the model's own: the softmax of its logits before anything above is done with them.
  std::optional<std::uint32_t> logprobs;

  /// What the answer is a text of, up to its stop token, which comes where the text may end.
  std::optional<GrammarSpec> grammar;

  bool has_penalties() const {
    return repetition_penalty != 1.0 || presence_penalty != 0.0 || frequency_penalty != 0.0;
  }
  /// Whether choices depend on the tokens before.
  bool needs_history() const { return has_penalties() || grammar.has_value(); }
  friend bool operator==(const SamplingSpec&, const SamplingSpec&) = default;
};

/// kInvalidArgument naming the field, its value and what is expected.
Status check(const SamplingSpec& spec);
/// Also holds the token ids of logit_bias and stop_tokens against the vocabulary.
Status check(const SamplingSpec& spec, std::uint64_t vocabulary_size);

}  // namespace paceline::sampling
