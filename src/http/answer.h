// The answer to one request on its way from whoever makes it to the connection. Internal.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "http/byte_budget.h"
#include "http/exchange.h"

namespace paceline::http {

struct AnswerTerms {
  bool is_head = false;  ///< to a HEAD request: no body
  bool is_http11 = true;
  bool keeps_alive = true;
  std::string request_id;
  Headers headers;  ///< put to those of the response
  std::size_t max_unsent_bytes = 0;
};

/// Whoever makes the answer uses the members of Exchange, from any thread; the connection takes
/// bytes on the network thread. No call blocks, and no callback runs under the lock.
class Answer {
 public:
  enum class Phase { kWaiting, kStreaming, kEnded, kAborted, kGone };

  /// `wake` is called from any thread when there is something to take, once until acknowledged.
  Answer(AnswerTerms terms, std::function<void()> wake);

  void respond(Response response);
  void begin_stream(Response head);
  bool write(std::string_view bytes);
  void end();
  void abort();
  void on_gone(std::function<void()> call);
  /// Nobody holds the exchange any more: answers 500, or aborts a stream.
  void let_go();

  // For the connection.

  struct Output {
    std::string bytes;
    bool is_last = false;  ///< nothing comes after these bytes
    bool is_cut = false;   ///< and the connection is to be closed without the end of the stream
  };
  /// To be called where `wake` was. False where the client does not take the stream: it is to be
  /// let go, and nothing more to be taken.
  bool acknowledge_wake();
  Output take();
  void on_sent(std::size_t bytes);
  /// The client is gone, or nothing more can be sent: calls what on_gone() has set.
  void lose();
  /// Takes effect where the head is not made yet.
  void stop_keeping_alive();

  bool keeps_alive() const;
  int status() const;
  bool is_stream() const;
  bool has_ended() const;  ///< by its maker: all was written

 private:
  using Call = std::function<void()>;
  void queue_whole(Response response);
  std::string make_head(const Response& response, bool is_chunked);
  void wake_locked();

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  AnswerTerms terms_;
  Phase phase_ = Phase::kWaiting;
  std::string pending_;
  std::size_t unsent_bytes_ = 0;  ///< of pending_ and of what was taken
  bool is_woken_ = false;
  bool is_too_slow_ = false;
  bool is_stream_ = false;
  bool has_refused_stream_ = false;  ///< its maker still has to be told that nobody reads it
  int status_ = 0;
  Call on_gone_;
};

/// What handlers hold.
class ServerExchange final : public Exchange {
 public:
  ServerExchange(Request request, std::shared_ptr<Answer> answer, ByteLease lease)
      : request_(std::move(request)), answer_(std::move(answer)), lease_(std::move(lease)) {}
  ~ServerExchange() override { answer_->let_go(); }

  const Request& request() const override { return request_; }
  void respond(Response response) override { answer_->respond(std::move(response)); }
  void begin_stream(Response head) override { answer_->begin_stream(std::move(head)); }
  bool write(std::string_view bytes) override { return answer_->write(bytes); }
  void end() override { answer_->end(); }
  void abort() override { answer_->abort(); }
  void on_gone(std::function<void()> call) override { answer_->on_gone(std::move(call)); }

 private:
  const Request request_;
  const std::shared_ptr<Answer> answer_;
  const ByteLease lease_;  ///< of the body
};

}  // namespace paceline::http
