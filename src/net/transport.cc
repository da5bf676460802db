#include "net/transport.h"

#include <future>
#include <utility>

#include "base/check.h"

namespace paceline::net {

Result<std::shared_ptr<Connection>> dial_and_wait(Transport& transport, const Endpoint& endpoint,
                                                  Deadline deadline,
                                                  std::shared_ptr<ConnectionHandler> handler) {
  PACELINE_CHECK(!transport.thread().is_current());
  using Dialled = Result<std::shared_ptr<Connection>>;
  // Shared, because promise::set_value may still touch it after get() has returned.
  const auto promise = std::make_shared<std::promise<Dialled>>();
  transport.dial(endpoint, deadline, std::move(handler),
                 [promise](Dialled result) { promise->set_value(std::move(result)); });
  return promise->get_future().get();
}

}  // namespace paceline::net
