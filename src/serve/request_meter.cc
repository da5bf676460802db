#include "serve/request_meter.h"

#include <algorithm>
#include <utility>

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
  if (metrics_ == nullptr || count == 0) return;
  const auto last = std::exchange(last_tokens_[answer], now);
  metrics_->add_generation_tokens(count);
  std::size_t later = count;
  if (!last) {
    metrics_->observe_first_token(now - begin_);
    --later;
  }
  // Those of one step came together: each has its share of the time.
  const Duration each = last ? (now - *last) / static_cast<Duration::rep>(count) : Duration::zero();
  for (; later > 0; --later) metrics_->observe_next_token(each);
}

void RequestMeter::finish(const coordinator::Generation& generation, bool is_first, TimePoint now) {
  if (metrics_ == nullptr) return;
  if (is_first && !generation.tokens.empty()) {
    metrics_->add_prompt_tokens(generation.prompt_tokens);
    metrics_->add_prefix_cache(generation.prompt_tokens, generation.reused_tokens);
  }
  obs::RequestTimes times;
  times.queue = generation.queue_time;
  times.prefill = std::max(Duration::zero(), generation.time_to_first_token - times.queue);
  times.decode = generation.decode_time;
  times.whole = now - begin_;
  metrics_->observe_request(times, reason_of(generation.finish_reason));
}

void RequestMeter::fail(std::size_t answers, TimePoint now) {
  if (metrics_ == nullptr) return;
  obs::RequestTimes times;
  times.whole = now - begin_;
  for (; answers > 0; --answers) metrics_->observe_request(times, obs::FinishedReason::kError);
}

}  // namespace paceline::serve
