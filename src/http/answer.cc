#include "http/answer.h"

#include <chrono>
#include <utility>

#include "http/response_text.h"

namespace paceline::http {
namespace {

std::string date_now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return http_date(std::chrono::duration_cast<std::chrono::seconds>(since).count());
}

}  // namespace

Answer::Answer(AnswerTerms terms, std::function<void()> wake)
    : wake_(std::move(wake)), terms_(std::move(terms)) {}

void Answer::wake_locked() {
  if (is_woken_) return;
  is_woken_ = true;
  wake_();
}

std::string Answer::make_head(const Response& response, bool is_chunked) {
  HeadFacts facts;
  facts.is_http11 = terms_.is_http11;
  facts.keeps_alive = terms_.keeps_alive;
  facts.is_chunked = is_chunked;
  facts.request_id = terms_.request_id;
  const std::string date = date_now();
  facts.date = date;
  status_ = response.status;
  return head_text(response, facts);
}

void Answer::queue_whole(Response response) {
  response.headers.insert(terms_.headers.begin(), terms_.headers.end());
  pending_ = make_head(response, false);
  if (!terms_.is_head && may_have_body(response.status)) pending_ += response.body;
  unsent_bytes_ = pending_.size();
  phase_ = Phase::kEnded;
}

void Answer::respond(Response response) {
  Call dropped;  // destroyed after the lock is released: it may hold the exchange
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kWaiting) return;
  queue_whole(std::move(response));
  dropped = std::exchange(on_gone_, nullptr);
  wake_locked();
}

void Answer::begin_stream(Response head) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kWaiting) return;
  if (!terms_.is_http11) {
    // Without chunks the end of the connection would be the end of the stream, and one that was cut
    // would look whole.
    queue_whole(error_response(505,
                               "streams need HTTP/1.1 (a proxy in between may have to be told so)",
                               "http_version_not_supported"));
    has_refused_stream_ = true;
    return wake_locked();
  }
  head.body.clear();
  head.headers.insert(terms_.headers.begin(), terms_.headers.end());
  pending_ = make_head(head, true);
  unsent_bytes_ = pending_.size();
  is_stream_ = true;
  has_refused_stream_ = terms_.is_head;
  phase_ = terms_.is_head ? Phase::kEnded : Phase::kStreaming;
  wake_locked();
}

bool Answer::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kStreaming || is_too_slow_) return false;
  if (bytes.empty()) return true;
  const std::size_t before = pending_.size();
  append_chunk(pending_, bytes);
  unsent_bytes_ += pending_.size() - before;
  // One write of any length is taken where nothing waits.
  is_too_slow_ = unsent_bytes_ > terms_.max_unsent_bytes && before > 0;
  wake_locked();
  return !is_too_slow_;
}

void Answer::end() {
  Call dropped;
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kStreaming || is_too_slow_) return;  // what was let go must not look whole
  pending_ += kLastChunk;
  unsent_bytes_ += kLastChunk.size();
  phase_ = Phase::kEnded;
  dropped = std::exchange(on_gone_, nullptr);
  wake_locked();
}

void Answer::abort() {
  Call dropped;
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kStreaming && phase_ != Phase::kWaiting) return;
  phase_ = Phase::kAborted;
  dropped = std::exchange(on_gone_, nullptr);
  wake_locked();
}

void Answer::on_gone(Call call) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::kWaiting || phase_ == Phase::kStreaming) {
      std::swap(on_gone_, call);  // the one before goes after the lock
      return;
    }
    if (phase_ != Phase::kGone && !has_refused_stream_) return;
  }
  if (call) call();
}

void Answer::let_go() {
  respond(error_response(500, "the request was given up by the server", "internal_error"));
  abort();  // where a stream had begun
}

bool Answer::acknowledge_wake() {
  const std::lock_guard lock(mutex_);
  is_woken_ = false;
  return !is_too_slow_;
}

Answer::Output Answer::take() {
  Output output;
  Call gone;
  {
    const std::lock_guard lock(mutex_);
    output.bytes = std::exchange(pending_, {});
    output.is_cut = phase_ == Phase::kAborted;
    output.is_last = phase_ == Phase::kEnded || output.is_cut;
    if (has_refused_stream_) gone = std::exchange(on_gone_, nullptr);
  }
  if (gone) gone();
  return output;
}

void Answer::on_sent(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  unsent_bytes_ -= bytes;
}

void Answer::lose() {
  Call gone;
  {
    const std::lock_guard lock(mutex_);
    gone = std::exchange(on_gone_, nullptr);
    if (phase_ == Phase::kWaiting || phase_ == Phase::kStreaming) phase_ = Phase::kGone;
    pending_.clear();
  }
  if (gone) gone();
}

void Answer::stop_keeping_alive() {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kWaiting) terms_.keeps_alive = false;
}

bool Answer::keeps_alive() const {
  const std::lock_guard lock(mutex_);
  return terms_.keeps_alive && phase_ == Phase::kEnded;
}

int Answer::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool Answer::is_stream() const {
  const std::lock_guard lock(mutex_);
  return is_stream_;
}

bool Answer::has_ended() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::kEnded;
}

}  // namespace paceline::http
