#include "coordinator/pending_request.h"

#include <utility>

namespace paceline::coordinator {
namespace {

bool wants_top(const GenerationRequest& request) {
  return request.sampling.logprobs.value_or(0) > 0;
}

void add_token(const wire::Sample& sample, const GenerationRequest& request,
               Generation& generation) {
  generation.tokens.push_back(sample.token);
  if (request.sampling.logprobs) generation.logprobs.push_back(sample.logprob);
  if (wants_top(request)) generation.top_logprobs.push_back(sample.top);
  if (request.want_logits_digests) generation.logits_digests.push_back(sample.logits_digest);
}

}  // namespace

PendingRequest::PendingRequest(GenerationRequest asked, std::shared_ptr<AnswerListener> listener,
                               TimePoint arrival)
    : asked_(std::move(asked)), listener_(std::move(listener)), arrival_(arrival) {
  if (!asked_.want_prompt_logprobs || asked_.prompt.empty()) return;
  prompt_logprobs_.resize(asked_.prompt.size() - 1);
  if (wants_top(asked_)) prompt_top_logprobs_.resize(asked_.prompt.size() - 1);
}

Result<PendingRequest> PendingRequest::create(GenerationRequest asked,
                                              std::shared_ptr<AnswerListener> listener,
                                              const text::Tokenizer* tokenizer, TimePoint arrival) {
  PendingRequest request(std::move(asked), std::move(listener), arrival);
  for (std::uint32_t choice = 0; choice < request.asked_.choices; ++choice) {
    PACELINE_ASSIGN_OR_RETURN(auto text, AnswerText::create(tokenizer, request.asked_.stop,
                                                            !request.asked_.shows_special_tokens));
    Answer answer{std::move(text), {}, {}};
    answer.generation.prompt_tokens = static_cast<std::uint32_t>(request.asked_.prompt.size());
    request.answers_.emplace(choice, std::move(answer));
  }
  return request;
}

std::vector<std::uint32_t> PendingRequest::open_choices() const {
  std::vector<std::uint32_t> choices;
  for (const auto& [choice, answer] : answers_) choices.push_back(choice);
  return choices;
}

Result<PendingRequest::Piece> PendingRequest::add(std::uint32_t choice,
                                                  std::span<const wire::Sample> samples, bool ends,
                                                  TimePoint now) {
  Answer& answer = answers_.at(choice);
  if (answer.generation.tokens.empty()) answer.first_token_at = now;
  Piece piece;
  if (asked_.want_mean) {  // the token itself says nothing
    answer.generation.mean = samples.back().mean;
    return piece;
  }
  for (const wire::Sample& sample : samples) {
    piece.taken.push_back(sample);
    add_token(sample, asked_, answer.generation);
    if (ends && piece.taken.size() == samples.size()) break;
    PACELINE_ASSIGN_OR_RETURN(const auto shown, answer.text.push(sample.token));
    piece.text += shown.text;
    piece.is_stopped = answer.is_stopped = shown.stopped;
    if (piece.is_stopped) break;
  }
  answer.generation.decode_time = now - answer.first_token_at;
  answer.generation.text += piece.text;
  return piece;
}

void PendingRequest::note_begin(std::uint32_t choice, std::uint32_t reused, TimePoint now) {
  const auto answer = answers_.find(choice);
  if (answer == answers_.end()) return;
  Generation& generation = answer->second.generation;
  // Afterwards it was preempted, and is computed again.
  if (!generation.tokens.empty()) return;
  generation.reused_tokens = reused;
  generation.queue_time = now - arrival_;
}

void PendingRequest::add_score(std::size_t position, const wire::Sample& sample) {
  if (position == 0 || position > prompt_logprobs_.size()) return;
  prompt_logprobs_[position - 1] = sample.logprob;
  if (!prompt_top_logprobs_.empty()) prompt_top_logprobs_[position - 1] = sample.top;
}

PendingRequest::Finished PendingRequest::finish(std::uint32_t choice, FinishReason reason) {
  auto node = answers_.extract(choice);
  Answer& answer = node.mapped();
  Finished finished{std::move(answer.generation), {}};
  Generation& generation = finished.generation;
  generation.finish_reason = reason;
  generation.prompt_logprobs = prompt_logprobs_;
  generation.prompt_top_logprobs = prompt_top_logprobs_;
  if (!answer.is_stopped) {
    if (auto rest = answer.text.finish()) finished.rest = *std::move(rest);
  }
  generation.text += finished.rest;
  if (!generation.tokens.empty() || !generation.mean.empty()) {
    generation.time_to_first_token = answer.first_token_at - arrival_;
  }
  return finished;
}

}  // namespace paceline::coordinator
