// What the connections of a server share. Internal.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <unordered_set>
#include <utility>

#include "http/byte_budget.h"
#include "http/handler_pool.h"
#include "http/host_rules.h"
#include "http/router.h"
#include "http/server_options.h"

namespace paceline::http {

class Connection;

/// Network thread only, but for what says otherwise.
struct ServerCore {
  ServerCore(ServerOptions server_options, Router routes, HostRules rules)
      : options(std::move(server_options)),
        router(std::move(routes)),
        hosts(std::move(rules)),
        pool(options.handler_threads, options.max_queued_requests) {}

  const ServerOptions options;
  const Router router;
  const HostRules hosts;
  /// Shared, since exchanges may be held, and wake connections, longer than the server lives.
  const std::shared_ptr<boost::asio::io_context> context =
      std::make_shared<boost::asio::io_context>(1);
  HandlerPool pool;  ///< thread-safe
  const std::shared_ptr<ByteBudget> bodies = std::make_shared<ByteBudget>(options.max_bodies_bytes);
  std::unordered_set<std::shared_ptr<Connection>> connections;
  bool is_draining = false;

  // Read from any thread.
  std::atomic<std::size_t> open_connections = 0;
  std::atomic<std::size_t> open_requests = 0;
  std::atomic<std::size_t> open_streams = 0;
};

}  // namespace paceline::http
