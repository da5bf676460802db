#include "coordinator/text_generator.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace paceline::coordinator {

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

double Generation::decode_tokens_per_second() const {
  const double seconds = std::chrono::duration<double>(decode_time).count();
  if (tokens.size() < 2 || seconds <= 0.0) return 0.0;
  return static_cast<double>(tokens.size() - 1) / seconds;
}

/// The text side of one answer: tokens in, shown text out.
class TextGenerator::Answer {
 public:
  Answer(const text::Tokenizer* tokenizer, text::StopMatcher matcher,
         const std::function<void(std::string_view)>& on_text, Generation& generation)
      : matcher_(std::move(matcher)), on_text_(on_text), generation_(generation) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer, true);
  }

  /// True where a stop string is complete.
  Result<bool> push(std::int64_t token) {
    if (!decoder_) return false;
    PACELINE_ASSIGN_OR_RETURN(const std::string piece, decoder_->push(token));
    const text::StopMatcher::Step step = matcher_.push(piece);
    show(step.text);
    return step.stopped;
  }

  Status finish(bool stopped) {
    if (!decoder_) return {};
    PACELINE_ASSIGN_OR_RETURN(const std::string rest, decoder_->finish());
    if (stopped) return {};
    show(matcher_.push(rest).text);
    show(matcher_.finish());
    return {};
  }

 private:
  void show(const std::string& text) {
    if (text.empty()) return;
    generation_.text += text;
    if (on_text_) on_text_(text);
  }

  std::optional<text::StreamDecoder> decoder_;
  text::StopMatcher matcher_;
  const std::function<void(std::string_view)>& on_text_;
  Generation& generation_;
};

TextGenerator::TextGenerator(StepRunner& runner, const text::Tokenizer* tokenizer,
                             const Clock& clock, GeneratorOptions options)
    : runner_(runner), tokenizer_(tokenizer), clock_(clock), options_(std::move(options)) {}

Status TextGenerator::check(const GenerationRequest& request) const {
  if (request.prompt.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (request.prompt.size() >= options_.context_tokens) {
    return fail(ErrorCode::kInvalidArgument,
                "the prompt has {} tokens, the context holds {} with the answer; shorten it or "
                "raise --ctx",
                request.prompt.size(), options_.context_tokens);
  }
  if (tokenizer_ == nullptr && !request.stop.empty()) {
    return fail(ErrorCode::kInvalidArgument, "stop strings need a tokenizer");
  }
  if (request.max_tokens == 0) return fail(ErrorCode::kInvalidArgument, "max tokens is 0");
  return {};
}

wire::Step TextGenerator::begin(const GenerationRequest& request, Generation& generation) {
  // The last prompt token is always computed: its logits give the first token.
  const std::size_t limit = std::min(kv_tokens_.size(), request.prompt.size() - 1);
  const auto shared = static_cast<std::size_t>(
      std::mismatch(kv_tokens_.begin(), kv_tokens_.begin() + static_cast<std::ptrdiff_t>(limit),
                    request.prompt.begin())
          .first -
      kv_tokens_.begin());
  wire::Step step;
  const SequenceId before = sequence_;
  sequence_ = SequenceId(before.value() + 1);
  wire::SequenceSpec spec;
  spec.sequence = sequence_;
  spec.sampling = request.sampling;
  spec.want_logits_digest = request.want_logits_digests;
  step.opened.push_back(std::move(spec));
  kv_tokens_.resize(shared);
  if (before.value() != 0) {
    // The new sequence takes over the blocks of the old one, and what both share of its KV.
    wire::StepSequence heir;
    heir.sequence = sequence_;
    heir.operations = {wire::Fork{before}, wire::Truncate{static_cast<std::uint32_t>(shared)}};
    wire::StepSequence ended;
    ended.sequence = before;
    ended.operations = {wire::Free{}};
    step.sequences = {std::move(heir), std::move(ended)};
  }
  generation.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  generation.reused_tokens = static_cast<std::uint32_t>(shared);
  return step;
}

Result<StepId> TextGenerator::submit_rows(std::vector<std::int64_t> tokens, bool is_sampled,
                                          wire::Step step) {
  if (step.sequences.empty()) {
    step.sequences.emplace_back();
    step.sequences.front().sequence = sequence_;
  }
  wire::StepSequence& rows = step.sequences.front();
  rows.past_tokens = static_cast<std::uint32_t>(kv_tokens_.size());
  rows.new_tokens = static_cast<std::uint32_t>(tokens.size());
  if (is_sampled) rows.sampled_rows = {rows.new_tokens - 1};
  kv_tokens_.insert(kv_tokens_.end(), tokens.begin(), tokens.end());
  rows.tokens.assign(tokens.begin(), tokens.end());
  const std::size_t blocks =
      (kv_tokens_.size() + options_.logical_block_tokens - 1) / options_.logical_block_tokens;
  rows.blocks.emplace_back();
  for (std::size_t block = 0; block < blocks; ++block) {
    rows.blocks.front().emplace_back(static_cast<std::uint32_t>(block));
  }
  return runner_.submit(std::move(step));
}

Result<std::optional<StepId>> TextGenerator::submit_prompt(const GenerationRequest& request,
                                                           Generation& generation,
                                                           const std::atomic<bool>& cancelled) {
  wire::Step step = begin(request, generation);
  std::deque<StepId> in_flight;
  const auto await_oldest = [&]() -> Status {
    const auto deadline = Deadline::after(options_.step_timeout, clock_.now());
    PACELINE_RETURN_IF_ERROR(runner_.await(in_flight.front(), deadline));
    in_flight.pop_front();
    return {};
  };
  std::optional<StepId> last;
  // The first chunk always goes: it opens the sequence that the next request builds on.
  do {
    const std::size_t left = request.prompt.size() - kv_tokens_.size();
    const std::size_t count = std::min<std::size_t>(left, options_.prefill_chunk_tokens);
    const auto first = request.prompt.begin() + static_cast<std::ptrdiff_t>(kv_tokens_.size());
    std::vector<std::int64_t> chunk(first, first + static_cast<std::ptrdiff_t>(count));
    PACELINE_ASSIGN_OR_RETURN(const StepId id,
                              submit_rows(std::move(chunk), count == left, std::move(step)));
    step = wire::Step();
    if (count == left) {
      last = id;
    } else {
      in_flight.push_back(id);
      if (in_flight.size() >= options_.steps_in_flight) PACELINE_RETURN_IF_ERROR(await_oldest());
    }
  } while (!last && !cancelled.load());
  while (!in_flight.empty()) PACELINE_RETURN_IF_ERROR(await_oldest());
  return last;
}

Result<wire::Sample> TextGenerator::await_sample(StepId step) {
  const auto deadline = Deadline::after(options_.step_timeout, clock_.now());
  PACELINE_ASSIGN_OR_RETURN(const auto result, runner_.await(step, deadline));
  if (result.samples.size() != 1) {
    return fail(ErrorCode::kInternal, "step {} gave {} samples, 1 was asked for", step.value(),
                result.samples.size());
  }
  return result.samples.front();
}

Result<Generation> TextGenerator::generate(const GenerationRequest& request,
                                           const std::function<void(std::string_view)>& on_text,
                                           const std::atomic<bool>& cancelled) {
  PACELINE_RETURN_IF_ERROR(check(request));
  PACELINE_ASSIGN_OR_RETURN(auto matcher, text::StopMatcher::create(request.stop));
  Generation generation;
  Answer answer(tokenizer_, std::move(matcher), on_text, generation);
  const TimePoint begin_time = clock_.now();
  PACELINE_ASSIGN_OR_RETURN(const auto first_step, submit_prompt(request, generation, cancelled));
  if (!first_step) {
    generation.finish_reason = FinishReason::kCancelled;
    return generation;
  }
  StepId step = *first_step;
  TimePoint first_time = begin_time;
  for (bool stopped = false;;) {
    PACELINE_ASSIGN_OR_RETURN(const wire::Sample sample, await_sample(step));
    const TimePoint now = clock_.now();
    if (generation.tokens.empty()) first_time = now;
    generation.time_to_first_token = first_time - begin_time;
    generation.decode_time = now - first_time;
    generation.tokens.push_back(sample.token);
    generation.logprobs.push_back(sample.logprob);
    if (request.want_logits_digests) generation.logits_digests.push_back(sample.logits_digest);

    const bool is_end = !request.ignore_eos && options_.end_tokens.contains(sample.token);
    const bool is_full = generation.tokens.size() >= request.max_tokens ||
                         kv_tokens_.size() + 1 >= options_.context_tokens;
    const bool is_cancelled = cancelled.load();
    const bool is_last = is_end || is_full || is_cancelled;
    // Without stop strings the chain works on the next token while this one becomes text.
    const bool runs_ahead = !is_last && request.stop.empty();
    if (runs_ahead) {
      PACELINE_ASSIGN_OR_RETURN(step, submit_rows({sample.token}, true, wire::Step()));
    }
    if (!is_end) {
      PACELINE_ASSIGN_OR_RETURN(stopped, answer.push(sample.token));
    }
    if (is_last || stopped) {
      generation.finish_reason = is_end || stopped ? FinishReason::kStop
                                 : is_full         ? FinishReason::kLength
                                                   : FinishReason::kCancelled;
      PACELINE_RETURN_IF_ERROR(answer.finish(stopped));
      return generation;
    }
    if (!runs_ahead) {
      PACELINE_ASSIGN_OR_RETURN(step, submit_rows({sample.token}, true, wire::Step()));
    }
  }
}

}  // namespace paceline::coordinator
