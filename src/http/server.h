// An HTTP/1.1 server for an API: routes, keys, limits, streams. It knows nothing of models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "http/exchange.h"
#include "http/router.h"
#include "http/server_options.h"

namespace paceline::http {

/// Lifecycle: start() -> serves -> drain() where requests are to end -> destructor, which aborts
/// what is left and returns when no handler runs any more. Exchanges may be held longer; what is
/// written to them is then dropped. Thread-safe.
class Server {
 public:
  /// Listens when it returns. Errors name the address, the file or the option.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Router router);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  /// "http://127.0.0.1:8000"
  std::string url() const;
  ServerCounts counts() const;

  /// Accepts nothing more, answers 503 to new requests, waits for those that are being read or
  /// answered, then closes all connections. What is left at the deadline, or when abort() is
  /// called, is cut. Returns how many requests were cut.
  std::size_t drain(Deadline deadline);
  /// Cuts all requests now. A drain() that waits returns.
  void abort();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::http
