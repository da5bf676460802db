#include "coordinator/text_generator.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <span>
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

namespace {

/// What the prompt's rows told of its tokens.
void add_scores(std::span<const wire::Sample> samples, const GenerationRequest& request,
                Generation& generation) {
  for (const wire::Sample& sample : samples) {
    generation.prompt_logprobs.push_back(sample.logprob);
    if (request.sampling.logprobs.value_or(0) > 0) {
      generation.prompt_top_logprobs.push_back(sample.top);
    }
  }
}

void add_token(const wire::Sample& sample, const GenerationRequest& request,
               Generation& generation) {
  generation.tokens.push_back(sample.token);
  if (request.sampling.logprobs) generation.logprobs.push_back(sample.logprob);
  if (request.sampling.logprobs.value_or(0) > 0) generation.top_logprobs.push_back(sample.top);
  if (request.want_logits_digests) generation.logits_digests.push_back(sample.logits_digest);
}

}  // namespace

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

wire::SequenceSpec TextGenerator::sequence_spec(const GenerationRequest& request) const {
  wire::SequenceSpec spec;
  spec.sequence = sequence_;
  spec.sampling = request.sampling;
  if (!request.ignore_eos) {
    for (const std::int64_t token : options_.end_tokens) {
      spec.sampling.stop_tokens.push_back(static_cast<std::uint32_t>(token));
    }
  }
  spec.want_logits_digest = request.want_logits_digests;
  spec.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
  if (request.sampling.needs_history() || request.want_prompt_logprobs) {
    spec.history = request.prompt;
  }
  return spec;
}

wire::Step TextGenerator::begin(const GenerationRequest& request, Generation& generation) {
  // The last prompt token is always computed: its logits give the first token.
  const std::size_t limit =
      request.want_prompt_logprobs ? 0 : std::min(kv_tokens_.size(), request.prompt.size() - 1);
  const auto shared = static_cast<std::size_t>(
      std::mismatch(kv_tokens_.begin(), kv_tokens_.begin() + static_cast<std::ptrdiff_t>(limit),
                    request.prompt.begin())
          .first -
      kv_tokens_.begin());
  wire::Step step;
  const SequenceId before = sequence_;
  sequence_ = SequenceId(before.value() + 1);
  step.opened.push_back(sequence_spec(request));
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

Result<StepId> TextGenerator::submit_rows(std::vector<std::int64_t> tokens, std::size_t sampled,
                                          wire::Step step) {
  if (step.sequences.empty()) {
    step.sequences.emplace_back();
    step.sequences.front().sequence = sequence_;
  }
  wire::StepSequence& rows = step.sequences.front();
  rows.past_tokens = static_cast<std::uint32_t>(kv_tokens_.size());
  rows.new_tokens = static_cast<std::uint32_t>(tokens.size());
  for (std::size_t row = tokens.size() - sampled; row < tokens.size(); ++row) {
    rows.sampled_rows.push_back(static_cast<std::uint32_t>(row));
  }
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

Result<std::optional<TextGenerator::PromptStep>> TextGenerator::submit_prompt(
    const GenerationRequest& request, Generation& generation, const std::atomic<bool>& cancelled) {
  wire::Step step = begin(request, generation);
  const bool is_scored = request.want_prompt_logprobs;
  const std::size_t chunk_tokens =
      is_scored ? std::min(options_.scored_chunk_tokens, options_.prefill_chunk_tokens)
                : options_.prefill_chunk_tokens;
  std::deque<PromptStep> in_flight;
  const auto await_oldest = [&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(const auto samples,
                              await_samples(in_flight.front().id, in_flight.front().sampled));
    add_scores(samples, request, generation);
    in_flight.pop_front();
    return {};
  };
  std::optional<PromptStep> last;
  // The first chunk always goes: it opens the sequence that the next request builds on.
  do {
    const std::size_t left = request.prompt.size() - kv_tokens_.size();
    const std::size_t count = std::min(left, chunk_tokens);
    const auto first = request.prompt.begin() + static_cast<std::ptrdiff_t>(kv_tokens_.size());
    std::vector<std::int64_t> chunk(first, first + static_cast<std::ptrdiff_t>(count));
    const std::size_t sampled = is_scored ? count : (count == left ? 1 : 0);
    PACELINE_ASSIGN_OR_RETURN(const StepId id,
                              submit_rows(std::move(chunk), sampled, std::move(step)));
    step = wire::Step();
    if (count == left) {
      last = PromptStep{id, sampled};
    } else {
      in_flight.push_back({id, sampled});
      if (in_flight.size() >= options_.steps_in_flight) PACELINE_RETURN_IF_ERROR(await_oldest());
    }
  } while (!last && !cancelled.load());
  while (!in_flight.empty()) PACELINE_RETURN_IF_ERROR(await_oldest());
  return last;
}

Result<std::vector<wire::Sample>> TextGenerator::await_samples(StepId step, std::size_t count) {
  const auto deadline = Deadline::after(options_.step_timeout, clock_.now());
  PACELINE_ASSIGN_OR_RETURN(auto result, runner_.await(step, deadline));
  if (result.samples.size() != count) {
    return fail(ErrorCode::kInternal, "step {} gave {} samples, {} were asked for", step.value(),
                result.samples.size(), count);
  }
  return std::move(result.samples);
}

bool TextGenerator::is_end_token(const GenerationRequest& request, std::int64_t token) const {
  if (!request.ignore_eos && options_.end_tokens.contains(token)) return true;
  const auto& stops = request.sampling.stop_tokens;
  return std::find(stops.begin(), stops.end(), static_cast<std::uint32_t>(token)) != stops.end();
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
  PromptStep step = *first_step;
  TimePoint first_time = begin_time;
  for (bool stopped = false;;) {
    PACELINE_ASSIGN_OR_RETURN(const auto samples, await_samples(step.id, step.sampled));
    add_scores(std::span(samples).first(samples.size() - 1), request, generation);
    const wire::Sample& sample = samples.back();
    const TimePoint now = clock_.now();
    if (generation.tokens.empty()) first_time = now;
    generation.time_to_first_token = first_time - begin_time;
    generation.decode_time = now - first_time;
    add_token(sample, request, generation);

    const bool is_end = is_end_token(request, sample.token);
    const bool is_full = generation.tokens.size() >= request.max_tokens ||
                         kv_tokens_.size() + 1 >= options_.context_tokens;
    const bool is_cancelled = cancelled.load();
    const bool is_last = is_end || is_full || is_cancelled;
    // Without stop strings the chain works on the next token while this one becomes text.
    const bool runs_ahead = !is_last && request.stop.empty();
    if (runs_ahead) {
      PACELINE_ASSIGN_OR_RETURN(step.id, submit_rows({sample.token}, 1, wire::Step()));
      step.sampled = 1;
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
      PACELINE_ASSIGN_OR_RETURN(step.id, submit_rows({sample.token}, 1, wire::Step()));
      step.sampled = 1;
    }
  }
}

}  // namespace paceline::coordinator
