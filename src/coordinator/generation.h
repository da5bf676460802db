// What is asked of a chain and what comes back: one prompt, one or several answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "sampling/sampling_spec.h"
#include "wire/messages.h"

namespace paceline::coordinator {

struct GenerationRequest {
  std::vector<std::int64_t> prompt;
  sampling::SamplingSpec sampling;
  std::uint32_t max_tokens = 256;
  std::uint32_t choices = 1;      ///< answers; sampling.choice is the first one's number
  std::vector<std::string> stop;  ///< stop strings; none of them is shown
  bool ignore_eos = false;
  bool shows_special_tokens = false;  ///< in the text, as the vocabulary spells them
  bool want_logits_digests = false;
  bool want_prompt_logprobs = false;  ///< the prompt is computed whole, nothing is used again
  /// Not an answer, but Generation::mean: the prompt is computed whole, and all that is said of
  /// tokens to generate counts for nothing.
  bool want_mean = false;
  /// It takes the place of one that has ended: not refused because many wait.
  bool keeps_place = false;
  std::int32_t priority = 0;  ///< higher goes first, as far as that starves nobody
  /// Requests of different salts share no KV cache: tenants, say.
  std::string cache_salt;

  /// Whether the last stage must know the tokens before those that it samples.
  bool needs_history() const { return sampling.needs_history() || want_prompt_logprobs; }
};

enum class FinishReason { kStop, kLength, kCancelled };
/// As clients of the API know it: "stop", "length", "cancelled".
std::string_view to_string(FinishReason reason);

/// One answer.
struct Generation {
  std::vector<std::int64_t> tokens;                           ///< sampled, the end token included
  std::vector<float> logprobs;                                ///< one per token where asked for
  std::vector<std::vector<wire::TokenLogprob>> top_logprobs;  ///< one list per token, the same
  std::vector<std::uint64_t> logits_digests;                  ///< one per token where asked for
  /// Of the prompt's tokens from the second on, where asked for.
  std::vector<float> prompt_logprobs;
  std::vector<std::vector<wire::TokenLogprob>> prompt_top_logprobs;
  /// Where asked for: of what the head reads of each token of the prompt. Then there are no tokens.
  std::vector<float> mean;
  std::string text;
  FinishReason finish_reason = FinishReason::kLength;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;    ///< of the prompt, found in the KV cache
  Duration queue_time = {};           ///< from its submission until its first rows were planned
  Duration time_to_first_token = {};  ///< since it was submitted
  Duration decode_time = {};          ///< from the first token to the last

  /// Tokens after the first, per second; 0 where there are none.
  double decode_tokens_per_second() const;
};

}  // namespace paceline::coordinator
