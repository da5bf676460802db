// An exchange without a connection: for requests that this process makes itself, and for tests.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

#include "http/exchange.h"

namespace paceline::http {

/// Holds the request and who wants to know of its client's end; what becomes of the answer is said
/// by those that derive from it. Thread-safe.
class LocalExchange : public Exchange {
 public:
  explicit LocalExchange(Request request) : request_(std::move(request)) {}

  const Request& request() const override { return request_; }
  void on_gone(std::function<void()> call) override;

  /// Nobody waits for the answer any more. Whether anybody was told.
  bool go();

 protected:
  /// The answer has ended: nobody is told from now on.
  void forget_gone();
  Request request_;

 private:
  std::mutex mutex_;
  std::function<void()> on_gone_;
  bool has_gone_ = false;
};

}  // namespace paceline::http
