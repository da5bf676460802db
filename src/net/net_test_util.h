// What the tests of this folder share.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "net/recording_handler.h"
#include "net/transport.h"

namespace paceline::net {

inline wire::Frame hello() {
  return {{}, wire::Hello{{1, 1}, "0.1", wire::Role::kCoordinator, "test", "", ""}, {}};
}
inline wire::Frame ping(std::uint64_t nonce) { return {{}, wire::Ping{nonce, 0}, {}}; }
inline std::uint64_t nonce_of(const wire::Frame& frame) {
  return std::get<wire::Ping>(frame.message).nonce;
}

/// A step with one boundary tensor of `bytes` bytes, each the low byte of its offset x `factor`.
inline wire::Frame step_of(std::size_t bytes, unsigned factor = 1) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * factor) & 0xffU);
  wire::Step step;
  step.sequences.push_back({SequenceId(1), 0, 1, {}, {}, {}, {}});
  return {{ChainId(1), Epoch(1), StageId(1), StepId(1)},
          std::move(step),
          {{"hidden", ElementType::kU8, {1, bytes}, wire::SharedBytes::own(std::move(data))}}};
}

inline Deadline soon() { return Deadline::after(std::chrono::seconds(10)); }

/// A listener that takes connections and keeps both ends of the first.
class TestServer {
 public:
  explicit TestServer(Transport& transport, const Endpoint& endpoint = {"127.0.0.1", 0}) {
    auto listener =
        transport.listen(endpoint, [this](const std::shared_ptr<Connection>& connection) {
          if (!is_taken_.exchange(true)) accepted_.set_value(connection);
          return handler;
        });
    EXPECT_TRUE(listener) << (listener ? "" : listener.error().message());
    if (listener) listener_ = std::move(*listener);
  }
  const Endpoint& endpoint() const { return listener_->endpoint(); }
  std::shared_ptr<Connection> accepted() { return accepted_.get_future().get(); }
  void stop() { listener_.reset(); }

  const std::shared_ptr<RecordingHandler> handler = std::make_shared<RecordingHandler>();

 private:
  std::atomic<bool> is_taken_ = false;
  std::promise<std::shared_ptr<Connection>> accepted_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace paceline::net
