// What is asked of a generator: held against what the chain can, and given to the scheduler.
#include <algorithm>
#include <utility>

#include "coordinator/batch_generator.h"
#include "wire/limits.h"

namespace paceline::coordinator {
namespace {

/// The model's own, as far as the request does not name them itself.
std::vector<std::int64_t> end_tokens_of(const GenerationRequest& request,
                                        const std::set<std::int64_t>& end_tokens) {
  std::vector<std::int64_t> added;
  if (request.ignore_eos) return added;
  const auto& named = request.sampling.stop_tokens;
  for (const std::int64_t token : end_tokens) {
    const auto id = static_cast<std::uint32_t>(token);
    if (std::find(named.begin(), named.end(), id) == named.end()) added.push_back(token);
  }
  return added;
}

/// Of a request for a mean, what is asked of the chain: the prompt, and one token that nobody sees.
GenerationRequest for_mean(GenerationRequest request) {
  GenerationRequest asked;
  asked.prompt = std::move(request.prompt);
  asked.max_tokens = 1;
  asked.ignore_eos = true;
  asked.want_mean = true;
  asked.priority = request.priority;
  asked.cache_salt = std::move(request.cache_salt);
  asked.keeps_place = request.keeps_place;
  return asked;
}

}  // namespace

Status BatchGenerator::check_grammars() const {
  if (options_.why_no_grammars.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "grammar: {}", options_.why_no_grammars);
}

Status BatchGenerator::check_means() const {
  if (options_.mean_width > 0 && options_.why_no_means.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "{}",
              options_.why_no_means.empty() ? "no chain gives them" : options_.why_no_means);
}

Status BatchGenerator::check(const GenerationRequest& request) const {
  const wire::Limits limits;
  const sampling::SamplingSpec& sampling = request.sampling;
  if (sampling.stop_tokens.size() + options_.end_tokens.size() > limits.stop_tokens) {
    return fail(ErrorCode::kInvalidArgument, "stop_tokens: {}, expected at most {}",
                sampling.stop_tokens.size(), limits.stop_tokens - options_.end_tokens.size());
  }
  if (sampling.logit_bias.size() > limits.logit_biases) {
    return fail(ErrorCode::kInvalidArgument, "logit_bias: {} tokens, expected at most {}",
                sampling.logit_bias.size(), limits.logit_biases);
  }
  if (sampling.grammar) PACELINE_RETURN_IF_ERROR(check_grammars());
  if (request.want_mean) PACELINE_RETURN_IF_ERROR(check_means());
  if (sampling.grammar && sampling.stop_tokens.empty() &&
      (request.ignore_eos || options_.end_tokens.empty())) {
    return fail(ErrorCode::kInvalidArgument,
                "grammar: expected a token that ends the answer; ignore_eos leaves none");
  }
  if (options_.vocabulary_size == 0) return sampling::check(sampling);
  for (const std::int64_t token : request.prompt) {
    if (token < 0 || static_cast<std::uint64_t>(token) >= options_.vocabulary_size) {
      return fail(ErrorCode::kInvalidArgument, "the prompt has token {}, expected 0 to {}", token,
                  options_.vocabulary_size - 1);
    }
  }
  return sampling::check(sampling, options_.vocabulary_size);
}

Result<sched::RequestId> BatchGenerator::submit(GenerationRequest request,
                                                std::shared_ptr<AnswerListener> listener) {
  if (request.want_mean) request = for_mean(std::move(request));
  PACELINE_RETURN_IF_ERROR(check(request));
  const std::lock_guard lock(mutex_);
  if (failure_) return fail(*failure_);
  for (const std::int64_t token : end_tokens_of(request, options_.end_tokens)) {
    request.sampling.stop_tokens.push_back(static_cast<std::uint32_t>(token));
  }
  const sched::RequestId id(last_request_ + 1);
  sched::Request asked;
  asked.id = id;
  asked.prompt = request.prompt;
  asked.max_tokens = request.max_tokens;
  asked.choices = request.choices;
  asked.priority = request.priority;
  asked.arrival = clock_.now();
  asked.cache_salt = request.cache_salt;
  asked.samples_prompt = request.want_prompt_logprobs;
  asked.sums_prompt = request.want_mean;
  asked.keeps_place = request.keeps_place;
  asked.has_history = request.needs_history();
  asked.end_tokens.assign(request.sampling.stop_tokens.begin(), request.sampling.stop_tokens.end());
  const TimePoint arrival = asked.arrival;
  PACELINE_ASSIGN_OR_RETURN(
      auto pending,
      PendingRequest::create(std::move(request), std::move(listener), tokenizer_, arrival));
  // The scheduler opens lines of drafts for what it takes; what it refuses is not missed.
  if (options_.draft_model != nullptr) {
    options_.draft_model->expect(pending.asked().sampling,
                                 static_cast<std::uint32_t>(asked.prompt.size()));
  }
  PACELINE_RETURN_IF_ERROR(scheduler_.submit(std::move(asked)));
  awaits_drafts_ = false;
  last_request_ = id.value();
  requests_.emplace(id, std::move(pending));
  changed_.notify_all();
  runner_.wake();
  return id;
}

void BatchGenerator::cancel(sched::RequestId request) {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(request);
  if (found == requests_.end() || found->second.is_cancelled) return;
  (void)scheduler_.cancel(request);  // it may have ended there with its last commit
  found->second.is_cancelled = true;
  has_cancelled_ = true;
  changed_.notify_all();
  runner_.wake();
}

void BatchGenerator::end_all(Error reason) {
  const std::lock_guard lock(mutex_);
  if (failure_ || end_reason_) return;
  end_reason_ = std::move(reason);
  changed_.notify_all();
  runner_.wake();
}

}  // namespace paceline::coordinator
