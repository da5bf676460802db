// A request under way: what its answers are so far, and whom to tell.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "coordinator/answer_text.h"
#include "coordinator/generation.h"
#include "text/tokenizer.h"
#include "wire/messages.h"

namespace paceline::coordinator {

/// Who asked. Called on the generator's thread, one call at a time: hand over and return.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;
  /// New tokens of an answer, and what is to be shown for them (maybe nothing yet). Without tokens:
  /// text that was held back, at the end.
  virtual void on_tokens(std::uint32_t choice, std::span<const wire::Sample> samples,
                         std::string_view text) = 0;
  /// The last call for this answer.
  virtual void on_finished(std::uint32_t choice, const Generation& generation) = 0;
  /// The last call for all answers of the request that are not finished: the chain failed,
  /// or (kInvalidArgument) this request alone, whose grammar met a limit.
  virtual void on_failed(const Error& error) = 0;
};

/// Thread-compatible; the tokenizer (or nullptr) must outlive it.
class PendingRequest {
 public:
  /// kInvalidArgument for stop strings that are not valid.
  static Result<PendingRequest> create(GenerationRequest asked,
                                       std::shared_ptr<AnswerListener> listener,
                                       const text::Tokenizer* tokenizer, TimePoint arrival);

  const GenerationRequest& asked() const { return asked_; }
  const std::shared_ptr<AnswerListener>& listener() const { return listener_; }
  TimePoint arrival() const { return arrival_; }
  std::vector<std::uint32_t> open_choices() const;
  bool is_over() const { return answers_.empty(); }

  struct Piece {
    std::vector<wire::Sample> taken;  ///< up to the end of a stop string
    std::string text;
    bool is_stopped = false;  ///< a stop string is complete
  };
  /// New tokens of an open answer. `ends`: the last one is an end token, which has no text.
  Result<Piece> add(std::uint32_t choice, std::span<const wire::Sample> samples, bool ends,
                    TimePoint now);
  /// Begun, in the KV cache's `reused` tokens; counts until it has tokens of its own.
  void note_begin(std::uint32_t choice, std::uint32_t reused, TimePoint now);
  /// What a row told of the prompt's token at `position`.
  void add_score(std::size_t position, const wire::Sample& sample);

  struct Finished {
    Generation generation;
    std::string rest;  ///< text that was held back, part of the generation's
  };
  /// Ends an open answer.
  Finished finish(std::uint32_t choice, FinishReason reason);

  bool is_cancelled = false;

 private:
  struct Answer {
    AnswerText text;
    Generation generation;
    TimePoint first_token_at;
    bool is_stopped = false;
  };

  PendingRequest(GenerationRequest asked, std::shared_ptr<AnswerListener> listener,
                 TimePoint arrival);

  GenerationRequest asked_;
  std::shared_ptr<AnswerListener> listener_;
  TimePoint arrival_;
  std::map<std::uint32_t, Answer> answers_;  ///< that are not finished
  /// Of the prompt's tokens from the second on; the same for all answers.
  std::vector<float> prompt_logprobs_;
  std::vector<std::vector<wire::TokenLogprob>> prompt_top_logprobs_;
};

}  // namespace paceline::coordinator
