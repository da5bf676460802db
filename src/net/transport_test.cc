// What every transport must do, on each of them.
#include "net/transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "net/loopback_transport.h"
#include "net/net_test_util.h"
#include "net/tcp_transport.h"

namespace paceline::net {
namespace {

enum class Make { kTcp, kLoopback };

class TransportTest : public testing::TestWithParam<Make> {
 protected:
  std::unique_ptr<Transport> make() {
    if (GetParam() == Make::kTcp) return std::make_unique<TcpTransport>(thread_);
    return std::make_unique<LoopbackTransport>(thread_);
  }
  std::shared_ptr<Connection> dial(TestServer& server) {
    auto connection = dial_and_wait(*transport_, server.endpoint(), soon(), client_);
    EXPECT_TRUE(connection) << (connection ? "" : connection.error().message());
    return connection ? *connection : nullptr;
  }

  NetworkThread thread_;
  std::unique_ptr<Transport> transport_ = make();
  std::shared_ptr<RecordingHandler> client_ = std::make_shared<RecordingHandler>();
};

TEST_P(TransportTest, FramesGoBothWaysWholeAndInOrder) {
  TestServer server(*transport_);
  EXPECT_NE(server.endpoint().port, 0);
  const auto connection = dial(server);
  const wire::Frame large = step_of(std::size_t{5} << 20, 7);
  ASSERT_TRUE(connection->send(hello()));
  ASSERT_TRUE(connection->send(large));
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(connection->send(ping(i)));
  const auto got = server.handler->wait_for_frames(202);
  ASSERT_EQ(got.size(), 202U);
  EXPECT_EQ(got[0], hello());
  EXPECT_EQ(got[1], large);
  for (std::uint64_t i = 0; i < 200; ++i) EXPECT_EQ(nonce_of(got[i + 2]), i);

  const auto accepted = server.accepted();
  ASSERT_TRUE(accepted->send({{}, wire::Welcome{}, {}}));
  ASSERT_TRUE(accepted->send(large));
  const auto back = client_->wait_for_frames(2);
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[1], large);
}

TEST_P(TransportTest, ClosingTellsBothSidesOnceAndSendsWhatWasQueued) {
  TestServer server(*transport_);
  const auto connection = dial(server);
  ASSERT_TRUE(connection->send(hello()));
  ASSERT_TRUE(connection->send({{}, wire::Goodbye{"enough"}, {}}));
  connection->close(Error(ErrorCode::kCancelled, "enough"));
  connection->close(Error(ErrorCode::kInternal, "again"));
  const auto own = client_->wait_for_close();
  ASSERT_TRUE(own);
  EXPECT_EQ(own->message(), "enough");
  const auto far = server.handler->wait_for_close();
  ASSERT_TRUE(far);
  EXPECT_EQ(far->code(), ErrorCode::kUnavailable);
  EXPECT_EQ(server.handler->frame_count(), 2U);
  const Status late = connection->send(ping(1));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(late.error().message().find("is closed: enough"), std::string::npos);
  transport_.reset();
  EXPECT_EQ(client_->closed_count(), 1);
  EXPECT_EQ(server.handler->closed_count(), 1);
}

TEST_P(TransportTest, NobodyThereIsUnavailable) {
  Endpoint free;
  {
    TestServer server(*transport_);
    free = server.endpoint();
  }
  const auto connection = dial_and_wait(*transport_, free, soon(), client_);
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(connection.error().message().find(free.to_string()), std::string::npos);
  EXPECT_EQ(client_->closed_count(), 0);
}

TEST_P(TransportTest, AnAddressIsBoundOnce) {
  TestServer server(*transport_);
  const auto second = transport_->listen(server.endpoint(), nullptr);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
}

TEST_P(TransportTest, TheFirstFrameMustBeOfTheHandshake) {
  TestServer server(*transport_);
  const auto connection = dial(server);
  ASSERT_TRUE(connection->send(ping(1)));
  const auto reason = server.handler->wait_for_close();
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->message(), "refused: first frame: expected hello or welcome, got ping");
  EXPECT_EQ(server.handler->frame_count(), 0U);
  EXPECT_TRUE(client_->wait_for_close());
}

TEST_P(TransportTest, AFrameThatThePeerWouldRefuseIsNotSent) {
  TestServer server(*transport_);
  const auto connection = dial(server);
  wire::Frame bad = step_of(16);
  bad.tensors[0].shape = {1, 17};
  const Status status = connection->send(bad);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(connection->send(hello()));
  EXPECT_EQ(server.handler->wait_for_frames(1).size(), 1U);
}

TEST_P(TransportTest, AHandlerMayAnswerAndCloseFromTheNetworkThread) {
  TestServer server(*transport_);
  std::promise<std::shared_ptr<Connection>> far;
  auto far_ready = far.get_future().share();
  server.handler->on_frame_hook = [far_ready](const wire::Frame& frame) {
    if (kind_of(frame.message) != wire::Kind::kPing) return;
    EXPECT_TRUE(far_ready.get()->send({{}, wire::Welcome{}, {}}));
    far_ready.get()->close(Error(ErrorCode::kCancelled, "one is enough"));
  };
  const auto connection = dial(server);
  far.set_value(server.accepted());
  ASSERT_TRUE(connection->send(hello()));
  ASSERT_TRUE(connection->send(ping(1)));
  for (std::uint64_t i = 2; i < 50; ++i) (void)connection->send(ping(i)).has_value();
  ASSERT_TRUE(server.handler->wait_for_close());
  ASSERT_TRUE(client_->wait_for_close());
  EXPECT_EQ(server.handler->frame_count(), 2U);
  EXPECT_EQ(client_->frame_count(), 1U);
}

TEST_P(TransportTest, ManyThreadsMaySend) {
  TestServer server(*transport_);
  const auto connection = dial(server);
  ASSERT_TRUE(connection->send(hello()));
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kEach = 250;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&connection, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) EXPECT_TRUE(connection->send(ping(t * kEach + i)));
    });
  }
  for (auto& thread : threads) thread.join();
  const auto got = server.handler->wait_for_frames(1 + kThreads * kEach);
  ASSERT_EQ(got.size(), 1 + kThreads * kEach);
  std::vector<std::uint64_t> next(kThreads, 0);
  for (std::size_t i = 1; i < got.size(); ++i) {
    const std::uint64_t nonce = nonce_of(got[i]);
    EXPECT_EQ(nonce % kEach, next[nonce / kEach]++) << "frames of one thread stay in order";
  }
}

TEST_P(TransportTest, DestroyingTheTransportClosesConnectionsThatAreStillHeld) {
  TestServer server(*transport_);
  const auto connection = dial(server);
  server.stop();
  transport_.reset();
  ASSERT_TRUE(client_->wait_for_close());
  EXPECT_EQ(client_->wait_for_close()->code(), ErrorCode::kCancelled);
  EXPECT_FALSE(connection->send(hello()));
  EXPECT_FALSE(connection->peer().empty());
}

TEST_P(TransportTest, AnEmptyHandlerRefusesTheConnection) {
  auto listener = transport_->listen({"127.0.0.1", 0},
                                     [](const std::shared_ptr<Connection>&) { return nullptr; });
  ASSERT_TRUE(listener);
  const auto connection = dial_and_wait(*transport_, (*listener)->endpoint(), soon(), client_);
  // TCP learns of it after the connection was made.
  if (connection) {
    EXPECT_TRUE(client_->wait_for_close());
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest, testing::Values(Make::kTcp, Make::kLoopback),
                         [](const auto& made) {
                           return made.param == Make::kTcp ? "Tcp" : "Loopback";
                         });

}  // namespace
}  // namespace paceline::net
