#include "serve/reply.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace paceline::serve {
namespace {

api::ApiError stopped_by_server() {
  return api::from_error(Error(ErrorCode::kUnavailable, "the model was unloaded"));
}

/// Ids and names alone.
obs::RequestRecord logged(const Reply::Parts& parts) {
  const http::Request& request = parts.exchange->request();
  obs::RequestRecord record;
  record.id = request.id;
  record.route = request.path;
  record.model = parts.head.model;
  record.tenant = request.tenant;
  return record;
}

}  // namespace

/// Of one prompt: numbers its answers among all.
class Reply::PromptListener final : public coordinator::AnswerListener {
 public:
  PromptListener(std::shared_ptr<Reply> reply, std::size_t first)
      : reply_(std::move(reply)), first_(first) {}

  void on_tokens(std::uint32_t choice, std::span<const wire::Sample> samples,
                 std::string_view text) override {
    reply_->on_tokens(first_ + choice, samples, text);
  }
  void on_finished(std::uint32_t choice, const coordinator::Generation& generation) override {
    reply_->on_finished(first_ + choice, generation);
    reply_->go_on();
  }
  void on_failed(const Error& error) override {
    reply_->on_failed(error);
    reply_->go_on();
  }

 private:
  const std::shared_ptr<Reply> reply_;
  const std::size_t first_;
};

Reply::Reply(Parts parts)
    : parts_(std::move(parts)),
      meter_({parts_.model->metrics(), &parts_.model->activity(), parts_.log}, answers(),
             parts_.clock->now(), logged(parts_)),
      trace_(parts_.spans, parts_.exchange->request(), parts_.head.model),
      last_sent_(parts_.clock->now()) {}

Status Reply::submit(std::size_t prompt, coordinator::GenerationRequest request) {
  auto listener = std::make_shared<PromptListener>(shared_from_this(), prompt * asked().choices);
  PACELINE_ASSIGN_OR_RETURN(const auto id,
                            parts_.model->submit(std::move(request), std::move(listener)));
  const std::lock_guard lock(requests_mutex_);
  requests_.push_back(id);
  // Its events may have come before its number, and with them the client's end.
  if (is_over_) parts_.model->cancel(id);
  return {};
}

void Reply::start() {
  // The exchange is held by this, so what it holds must not hold this.
  parts_.exchange->on_gone([weak = weak_from_this()] {
    if (const auto reply = weak.lock()) reply->cancel_all();
  });
}

void Reply::cancel_all() {
  is_over_ = true;
  const std::lock_guard lock(requests_mutex_);
  for (const auto request : requests_) parts_.model->cancel(request);
}

void Reply::fail(const api::ApiError& error) {
  {
    const std::lock_guard lock(mutex_);
    fail_locked(error);
  }
  cancel_all();
}

void Reply::fail_locked(const api::ApiError& error) {
  if (is_over_.exchange(true)) return;
  trace_.fail(error.status);
  if (!has_begun_) return respond(*parts_.exchange, error);
  fail_stream(error);
}

void Reply::fail_stream(const api::ApiError& error) {
  // Never a clean end: a client would take what came for the whole.
  send(api::to_json(error));
  parts_.exchange->abort();
}

void Reply::ping(TimePoint before) {
  const std::lock_guard lock(mutex_);
  if (is_over_ || !asked().stream || last_sent_ > before) return;
  write(api::kSsePing);
}

void Reply::on_tokens(std::size_t answer, std::span<const wire::Sample> samples,
                      std::string_view text) {
  const std::lock_guard lock(mutex_);
  meter_.add_tokens(answer, samples.size(), parts_.clock->now());
  if (!is_over_) add(answer, samples, text);
}

void Reply::on_finished(std::size_t answer, const coordinator::Generation& generation) {
  const std::lock_guard lock(mutex_);
  const bool is_first = answer % asked().choices == 0;
  meter_.finish(generation, is_first, parts_.clock->now());
  trace_.add_answer(generation, is_first);
  ++finished_;
  if (is_over_) return;
  if (generation.finish_reason == coordinator::FinishReason::kCancelled) {
    return fail_locked(stopped_by_server());
  }
  count(answer, generation);
  finish(answer, generation);
  if (finished_ == answers() && !is_over_) end_locked();
}

void Reply::on_failed(const Error& error) {
  // That is the request's own; all else is the chain's end.
  if (error.code() != ErrorCode::kInvalidArgument) parts_.model->note_failure(error);
  {
    const std::lock_guard lock(mutex_);
    // All prompts fail one by one, and each with all of its answers.
    meter_.fail(std::min<std::size_t>(asked().choices, answers() - finished_), parts_.clock->now());
  }
  fail(api::from_error(error));
}

void Reply::abandon(std::size_t answers) {
  const std::lock_guard lock(mutex_);
  meter_.abandon(answers, parts_.clock->now());
}

void Reply::count(std::size_t answer, const coordinator::Generation& generation) {
  if (asked().max_tokens != 0U) usage_.completion_tokens += generation.tokens.size();
  if (answer % asked().choices != 0) return;  // the prompt counts once
  usage_.prompt_tokens += generation.prompt_tokens;
  usage_.cached_tokens += generation.reused_tokens;
}

void Reply::end_locked() {
  if (!asked().stream) {
    is_over_ = true;
    return respond_text(*parts_.exchange, body(usage_));
  }
  end_stream(usage_);
  is_over_ = true;
}

void Reply::end_stream(const api::Usage& usage) {
  if (asked().include_usage) send(api::usage_chunk(head(), is_chat(), usage));
  write(api::kSseDone);
  parts_.exchange->end();
}

void Reply::write(std::string_view bytes) {
  if (!std::exchange(has_begun_, true)) {
    http::Response head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers["Cache-Control"] = "no-cache";
    head.headers["X-Accel-Buffering"] = "no";  // proxies pass on what they get
    parts_.exchange->begin_stream(std::move(head));
  }
  last_sent_ = parts_.clock->now();
  if (!parts_.exchange->write(bytes)) cancel_all();
}

ChoiceTokens::End Reply::end_of(const coordinator::Generation& generation) const {
  if (generation.finish_reason != coordinator::FinishReason::kStop) {
    return ChoiceTokens::End::kLength;
  }
  if (generation.tokens.empty()) return ChoiceTokens::End::kStopString;
  const std::int64_t last = generation.tokens.back();
  const auto& own = parts_.asked.stop_tokens;
  const bool is_end = std::find(own.begin(), own.end(), last) != own.end() ||
                      (!asked().ignore_eos && model().facts().end_tokens.contains(last));
  return is_end ? ChoiceTokens::End::kEndToken : ChoiceTokens::End::kStopString;
}

}  // namespace paceline::serve
