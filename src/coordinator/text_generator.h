// One sequence over a chain: prompt in, streamed text out.
//
// Not a scheduler: one request at a time. It plans steps (prefill chunks in flight together, then
// one token a step), and turns sampled tokens into text that is never broken inside a character
// nor shows a part of a stop string.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "coordinator/step_runner.h"
#include "sampling/sampling_spec.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace paceline::coordinator {

struct GenerationRequest {
  std::vector<std::int64_t> prompt;
  sampling::SamplingSpec sampling;
  std::uint32_t max_tokens = 256;
  std::vector<std::string> stop;  ///< stop strings; none of them is shown
  bool ignore_eos = false;
  bool want_logits_digests = false;
  bool want_prompt_logprobs = false;  ///< the prompt is computed whole, nothing is used again
};

enum class FinishReason { kStop, kLength, kCancelled };
std::string_view to_string(FinishReason reason);

struct Generation {
  std::vector<std::int64_t> tokens;                           ///< sampled, the end token included
  std::vector<float> logprobs;                                ///< one per token where asked for
  std::vector<std::vector<wire::TokenLogprob>> top_logprobs;  ///< one list per token, the same
  std::vector<std::uint64_t> logits_digests;                  ///< one per token where asked for
  /// Of the prompt's tokens from the second on, where asked for.
  std::vector<float> prompt_logprobs;
  std::vector<std::vector<wire::TokenLogprob>> prompt_top_logprobs;
  std::string text;
  FinishReason finish_reason = FinishReason::kLength;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;  ///< of the prompt, still in the KV cache from the last request
  Duration time_to_first_token = {};
  Duration decode_time = {};  ///< from the first token to the last

  /// Tokens after the first, per second; 0 where there are none.
  double decode_tokens_per_second() const;
};

struct GeneratorOptions {
  std::set<std::int64_t> end_tokens;
  std::uint32_t context_tokens = 0;  ///< prompt and answer together
  std::uint32_t logical_block_tokens = 32;
  std::uint32_t prefill_chunk_tokens = 512;
  std::uint32_t scored_chunk_tokens = 64;  ///< of a prompt whose rows all have logits
  std::uint32_t steps_in_flight = 2;       ///< prefill chunks sent before the first result is back
  Duration step_timeout = std::chrono::minutes(10);
};

/// Thread-compatible. The runner, the tokenizer and the clock must outlive it.
class TextGenerator {
 public:
  TextGenerator(StepRunner& runner, const text::Tokenizer& tokenizer, const Clock& clock,
                GeneratorOptions options)
      : TextGenerator(runner, &tokenizer, clock, std::move(options)) {}
  /// Without a tokenizer (nullptr) the text stays empty, and stop strings are refused.
  TextGenerator(StepRunner& runner, const text::Tokenizer* tokenizer, const Clock& clock,
                GeneratorOptions options);

  /// `on_text` gets complete text as it comes; `cancelled` is looked at between tokens and between
  /// chunks of the prompt.
  /// kInvalidArgument, before any work, where the prompt is empty, does not fit the context, or
  /// the stop strings are not valid. The KV of what this prompt shares with the last request's
  /// tokens is used again. After an error of the runner nothing is known of the chain's sequences:
  /// make another generator.
  Result<Generation> generate(const GenerationRequest& request,
                              const std::function<void(std::string_view)>& on_text,
                              const std::atomic<bool>& cancelled);

 private:
  class Answer;

  Status check(const GenerationRequest& request) const;
  struct PromptStep {
    StepId id;
    std::size_t sampled = 0;  ///< its rows with samples
  };
  /// The step whose last sample is the first token; none where the request was cancelled before it.
  Result<std::optional<PromptStep>> submit_prompt(const GenerationRequest& request,
                                                  Generation& generation,
                                                  const std::atomic<bool>& cancelled);
  /// `sampled`: how many of the last rows are.
  Result<StepId> submit_rows(std::vector<std::int64_t> tokens, std::size_t sampled,
                             wire::Step step);
  /// The samples of a step, of which there must be `count`.
  Result<std::vector<wire::Sample>> await_samples(StepId step, std::size_t count);
  bool is_end_token(const GenerationRequest& request, std::int64_t token) const;
  wire::SequenceSpec sequence_spec(const GenerationRequest& request) const;
  /// Opens the sequence anew, or truncates the open one to what `request` shares with it.
  wire::Step begin(const GenerationRequest& request, Generation& generation);

  StepRunner& runner_;
  const text::Tokenizer* tokenizer_;
  const Clock& clock_;
  GeneratorOptions options_;
  SequenceId sequence_{0};               ///< 0: none is open
  std::vector<std::int64_t> kv_tokens_;  ///< what the open sequence has in the KV cache
};

}  // namespace paceline::coordinator
