#include "serve/request_meter.h"

#include <algorithm>
#include <utility>

#include "system/wall_clock.h"

namespace paceline::serve {
namespace {

obs::FinishedReason reason_of(coordinator::FinishReason reason) {
  switch (reason) {
    case coordinator::FinishReason::kStop:
      return obs::FinishedReason::kStop;
    case coordinator::FinishReason::kLength:
      return obs::FinishedReason::kLength;
    case coordinator::FinishReason::kCancelled:
      break;
  }
  return obs::FinishedReason::kAbort;
}

}  // namespace

void RequestMeter::add_tokens(std::size_t answer, std::size_t count, TimePoint now) {
  if (count == 0) return;
  const auto last = std::exchange(last_tokens_[answer], now);
  const std::size_t later = last ? count : count - 1;
  // Those of one step came together: each has its share of the time.
  const Duration each = last ? (now - *last) / static_cast<Duration::rep>(count) : Duration::zero();
  request_.generated_tokens += count;
  if (!last && !request_.first_token) request_.first_token = now - begin_;
  if (meters_.metrics != nullptr) {
    meters_.metrics->add_generation_tokens(count);
    if (!last) meters_.metrics->observe_first_token(now - begin_);
    for (std::size_t i = 0; i < later; ++i) meters_.metrics->observe_next_token(each);
  }
  if (meters_.activity != nullptr) {
    meters_.activity->add_generation_tokens(count);
    if (!last) meters_.activity->observe_first_token(now - begin_);
    meters_.activity->observe_next_tokens(each, later);
  }
}

void RequestMeter::count_prompt(const coordinator::Generation& generation) {
  request_.prompt_tokens += generation.prompt_tokens;
  request_.reused_tokens += generation.reused_tokens;
  if (meters_.metrics != nullptr) {
    meters_.metrics->add_prompt_tokens(generation.prompt_tokens);
    meters_.metrics->add_prefix_cache(generation.prompt_tokens, generation.reused_tokens);
  }
  if (meters_.activity != nullptr) meters_.activity->add_prompt_tokens(generation.prompt_tokens);
}

void RequestMeter::finish(const coordinator::Generation& generation, bool is_first, TimePoint now) {
  const bool was_computed = !generation.tokens.empty() || !generation.mean.empty();
  if (is_first && was_computed) count_prompt(generation);
  request_.queue = std::max(request_.queue, generation.queue_time);
  if (meters_.metrics != nullptr) {
    obs::RequestTimes times;
    times.queue = generation.queue_time;
    times.prefill = std::max(Duration::zero(), generation.time_to_first_token - times.queue);
    times.decode = generation.decode_time;
    times.whole = now - begin_;
    meters_.metrics->observe_request(times, reason_of(generation.finish_reason));
  }
  end(1, coordinator::to_string(generation.finish_reason), now);
}

void RequestMeter::fail(std::size_t answers, TimePoint now) {
  if (meters_.metrics != nullptr) {
    obs::RequestTimes times;
    times.whole = now - begin_;
    for (std::size_t i = 0; i < answers; ++i) {
      meters_.metrics->observe_request(times, obs::FinishedReason::kError);
    }
  }
  end(answers, obs::to_string(obs::FinishedReason::kError), now);
}

void RequestMeter::abandon(std::size_t answers, TimePoint now) {
  const std::string reason = request_.end;
  if (answers > 0) end(answers, reason, now);
}

void RequestMeter::end(std::size_t answers, std::string_view reason, TimePoint now) {
  ended_ += answers;
  request_.end = reason;
  if (meters_.log == nullptr || ended_ != last_tokens_.size()) return;
  request_.whole = now - begin_;
  request_.unix_seconds = system::unix_seconds();
  meters_.log->add(request_);
}

}  // namespace paceline::serve
