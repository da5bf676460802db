// The answer to one HTTP request: from the generator's events to a body or a stream of events.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/generation_fields.h"
#include "api/responses.h"
#include "base/clock.h"
#include "http/exchange.h"
#include "rest/respond.h"
#include "serve/choice_tokens.h"
#include "serve/request_meter.h"
#include "serve/request_trace.h"
#include "serve/served_model.h"

namespace paceline::serve {

/// What chat and completions have in common: several prompts, several answers each, one exchange.
///
/// Lifecycle: made by a handler, submit() for each prompt, then start(). Kept alive by the
/// generator until the last answer is over. Thread-safe: events come on the generator's thread,
/// pings on a timer's, the client's end on the server's.
class Reply : public std::enable_shared_from_this<Reply> {
 public:
  struct Parts {
    std::shared_ptr<http::Exchange> exchange;
    std::shared_ptr<ServedModel> model;
    const Clock* clock = nullptr;
    api::ResponseHead head;
    api::GenerationFields asked;
    std::size_t prompts = 1;
    obs::SpanExporter* spans = nullptr;  ///< null: no trace is made
    obs::RequestLog* log = nullptr;      ///< null: not logged
  };
  virtual ~Reply() = default;

  /// Its answers are those from number `prompt * asked.choices` on.
  Status submit(std::size_t prompt, coordinator::GenerationRequest request);
  /// All is submitted: from now on the client's end cancels it.
  void start();
  /// Tells the client, as far as it can still be told, and cancels what is under way.
  void fail(const api::ApiError& error);
  /// A comment where nothing was sent since `before`; only streams.
  void ping(TimePoint before);

 protected:
  explicit Reply(Parts parts);

  const api::ResponseHead& head() const { return parts_.head; }
  const api::GenerationFields& asked() const { return parts_.asked; }
  const ServedModel& model() const { return *parts_.model; }
  std::size_t answers() const { return parts_.prompts * parts_.asked.choices; }
  bool wants_logprobs() const { return parts_.asked.logprobs.has_value(); }

  /// With the mutex held: an answer's new tokens and text; its end.
  virtual void add(std::size_t answer, std::span<const wire::Sample> samples,
                   std::string_view text) = 0;
  virtual void finish(std::size_t answer, const coordinator::Generation& generation) = 0;
  /// All of an answer that is no stream.
  virtual std::string body(const api::Usage& usage) = 0;
  virtual bool is_chat() const = 0;

  /// After each answer's end, with no mutex held: more may be submitted.
  virtual void go_on() {}
  bool is_over() const { return is_over_; }
  /// As many answers were never asked for, and never will be.
  void abandon(std::size_t answers);
  /// As fail(), with the mutex held; what is under way is left to whoever hears of its end.
  void fail_locked(const api::ApiError& error);

  /// How a stream ends, and how one fails that has begun. Both end the exchange.
  virtual void end_stream(const api::Usage& usage);
  virtual void fail_stream(const api::ApiError& error);

  void send(const api::Json& event) { write(api::sse_event(event)); }
  /// To the stream, which begins with it.
  void write(std::string_view bytes);
  http::Exchange& exchange() { return *parts_.exchange; }
  ChoiceTokens::End end_of(const coordinator::Generation& generation) const;

 private:
  class PromptListener;
  void on_tokens(std::size_t answer, std::span<const wire::Sample> samples, std::string_view text);
  void on_finished(std::size_t answer, const coordinator::Generation& generation);
  void on_failed(const Error& error);
  void count(std::size_t answer, const coordinator::Generation& generation);
  void end_locked();
  void cancel_all();

  const Parts parts_;
  /// Of the requests alone: the server may tell of the client's end out of a write.
  std::mutex requests_mutex_;
  std::vector<sched::RequestId> requests_;
  std::atomic<bool> is_over_ = false;
  std::mutex mutex_;  ///< of the rest
  std::size_t finished_ = 0;
  api::Usage usage_;
  RequestMeter meter_;
  RequestTrace trace_;
  TimePoint last_sent_;
  bool has_begun_ = false;  ///< the stream
};

using rest::respond;
using rest::respond_text;

}  // namespace paceline::serve
