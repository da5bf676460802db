#include "net/tcp_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio.hpp>
#include <thread>

#include "net/net_test_util.h"
#include "wire/codec.h"

namespace paceline::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using std::chrono::milliseconds;

/// A peer that sends what it likes.
class RawPeer {
 public:
  explicit RawPeer(const Endpoint& endpoint) : socket_(context_) {
    socket_.connect({asio::ip::make_address(endpoint.host), endpoint.port});
  }
  void send(std::span<const std::byte> bytes) {
    boost::system::error_code ignored;
    asio::write(socket_, asio::buffer(bytes.data(), bytes.size()), ignored);
  }
  /// All frames until the other side closes.
  std::vector<wire::Frame> read_until_closed() {
    std::vector<wire::Frame> frames;
    wire::FrameDecoder decoder;
    std::array<std::byte, 4096> buffer;
    boost::system::error_code error;
    while (!error) {
      const std::size_t count = socket_.read_some(asio::buffer(buffer), error);
      EXPECT_TRUE(decoder.feed(std::span(buffer).first(count), frames));
    }
    return frames;
  }

 private:
  asio::io_context context_;
  tcp::socket socket_;
};

std::vector<std::byte> bytes_of(const wire::Frame& frame) {
  return wire::flatten(wire::encode(frame).value());
}

TcpOptions impatient() {
  TcpOptions options;
  options.first_frame_timeout = milliseconds(300);
  options.stall_timeout = milliseconds(300);
  options.linger_timeout = milliseconds(300);
  return options;
}

TEST(TcpTransportTest, GarbageIsClosedWithAFaultAndTheListenerServesTheNext) {
  NetworkThread thread;
  TcpTransport transport(thread);
  TestServer server(transport);
  RawPeer peer(server.endpoint());
  const std::string garbage(100000, 'x');
  peer.send(std::as_bytes(std::span(garbage)));
  const auto reason = server.handler->wait_for_close();
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->code(), ErrorCode::kDataLoss);
  EXPECT_EQ(reason->message(), "refused: magic: expected 'PACE' (0x50414345), got 0x78787878");
  const auto frames = peer.read_until_closed();
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(std::get<wire::Fault>(frames[0].message).code, ErrorCode::kDataLoss);

  auto client = std::make_shared<RecordingHandler>();
  const auto next = dial_and_wait(transport, server.endpoint(), soon(), client);
  ASSERT_TRUE(next);
  ASSERT_TRUE((*next)->send(hello()));
  EXPECT_EQ(server.handler->wait_for_frames(1).size(), 1U);
}

TEST(TcpTransportTest, AnotherVersionIsToldWhichSideToUpdate) {
  NetworkThread thread;
  TcpTransport transport(thread);
  TestServer server(transport);
  RawPeer peer(server.endpoint());
  peer.send(bytes_of(hello()));
  auto newer = bytes_of(ping(1));
  newer[5] = std::byte{4};
  peer.send(newer);
  const auto frames = peer.read_until_closed();
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(std::get<wire::Fault>(frames[0].message).message,
            "protocol version: this side speaks 1 to 3, the peer speaks 4: update this side");
}

TEST(TcpTransportTest, APeerWithoutAFirstFrameIsClosed) {
  NetworkThread thread;
  TcpTransport transport(thread, impatient());
  TestServer server(transport);
  RawPeer silent(server.endpoint());
  const auto reason = server.handler->wait_for_close();
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(reason->message(), "no complete first frame for 300 ms");
}

TEST(TcpTransportTest, APeerThatStopsInAFrameIsClosedAnIdleOneIsNot) {
  NetworkThread thread;
  TcpTransport transport(thread, impatient());
  TestServer server(transport);
  RawPeer peer(server.endpoint());
  peer.send(bytes_of(hello()));
  ASSERT_EQ(server.handler->wait_for_frames(1).size(), 1U);
  std::this_thread::sleep_for(milliseconds(700));
  EXPECT_EQ(server.handler->closed_count(), 0) << "idle between frames for two timeouts";
  const auto begun = bytes_of(ping(1));
  peer.send(std::span(begun).first(20));
  const auto reason = server.handler->wait_for_close();
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->message(), "no byte in the middle of a frame for 300 ms");
}

TEST(TcpTransportTest, ASilentPeerIsClosedWhereItMustNotBeSilent) {
  NetworkThread thread;
  TcpTransport transport(thread);
  TestServer server(transport);
  RawPeer peer(server.endpoint());
  peer.send(bytes_of(hello()));
  ASSERT_EQ(server.handler->wait_for_frames(1).size(), 1U);
  server.accepted()->set_silence_limit(milliseconds(400));
  for (std::uint64_t i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    peer.send(bytes_of(ping(i)));
  }
  ASSERT_EQ(server.handler->wait_for_frames(9).size(), 9U);
  EXPECT_EQ(server.handler->closed_count(), 0) << "it spoke for two limits";
  const auto reason = server.handler->wait_for_close();
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(reason->message(), "silent for 400 ms");
}

TEST(TcpTransportTest, AByteNowAndThenIsProgress) {
  NetworkThread thread;
  TcpOptions options = impatient();
  options.first_frame_timeout = std::chrono::seconds(20);
  TcpTransport transport(thread, options);
  TestServer server(transport);
  RawPeer peer(server.endpoint());
  const auto bytes = bytes_of(hello());
  const std::size_t step = bytes.size() / 6;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    peer.send(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)));
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_EQ(server.handler->wait_for_frames(1).size(), 1U);
  EXPECT_EQ(server.handler->closed_count(), 0);
}

TEST(TcpTransportTest, APeerThatClosesInAFrameIsNamedSo) {
  NetworkThread thread;
  TcpTransport transport(thread);
  TestServer server(transport);
  {
    RawPeer peer(server.endpoint());
    const auto begun = bytes_of(hello());
    peer.send(std::span(begun).first(30));
  }
  const auto reason = server.handler->wait_for_close();
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->code(), ErrorCode::kUnavailable);
  EXPECT_EQ(reason->message(), "the peer closed the connection in the middle of a frame");
}

TEST(TcpTransportTest, AFullQueueRefusesAndAPeerThatTakesNothingIsClosed) {
  NetworkThread thread;
  TcpOptions options = impatient();
  options.first_frame_timeout = std::chrono::seconds(20);
  options.stall_timeout = std::chrono::seconds(1);
  options.send_queue_bytes = std::size_t{8} << 20;
  TcpTransport transport(thread, options);
  TestServer server(transport);
  RawPeer deaf(server.endpoint());
  const auto connection = server.accepted();
  const wire::Frame frame = step_of(std::size_t{1} << 20);
  Status status;
  int taken = 0;
  while (status && taken < 1000) {
    status = connection->send(frame);
    ++taken;
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kResourceExhausted) << status.error().message();
  EXPECT_GE(taken, 8);
  const auto reason = server.handler->wait_for_close();
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->code(), ErrorCode::kDeadlineExceeded);
}

TEST(TcpTransportTest, AFrameLargerThanTheQueueGoesThroughAnEmptyOne) {
  NetworkThread thread;
  TcpOptions options;
  options.send_queue_bytes = 1000;
  TcpTransport transport(thread, options);
  TestServer server(transport);
  auto client = std::make_shared<RecordingHandler>();
  const auto connection = dial_and_wait(transport, server.endpoint(), soon(), client);
  ASSERT_TRUE(connection);
  ASSERT_TRUE((*connection)->send(hello()));
  ASSERT_EQ(server.handler->wait_for_frames(1).size(), 1U);
  const wire::Frame large = step_of(std::size_t{3} << 20, 3);
  // The bytes of the first frame leave the count a moment after the peer has them.
  Status status = (*connection)->send(large);
  while (!status) status = (*connection)->send(large);
  const auto got = server.handler->wait_for_frames(2);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1], large);
}

TEST(TcpTransportTest, ConnectionsAreBounded) {
  NetworkThread thread;
  TcpOptions options;
  options.max_connections = 2;
  TcpTransport transport(thread, options);
  TestServer server(transport);
  RawPeer first(server.endpoint());
  auto second = std::make_unique<RawPeer>(server.endpoint());
  RawPeer third(server.endpoint());
  EXPECT_TRUE(third.read_until_closed().empty());
  EXPECT_EQ(server.handler->closed_count(), 0);
  second.reset();
  ASSERT_TRUE(server.handler->wait_for_close());
  RawPeer fourth(server.endpoint());
  fourth.send(bytes_of(hello()));
  EXPECT_EQ(server.handler->wait_for_frames(1).size(), 1U);
}

TEST(TcpTransportTest, DiallingEndsAtItsDeadline) {
  NetworkThread thread;
  TcpTransport transport(thread);
  // A listening socket whose backlog is full answers no further connection.
  asio::io_context context;
  tcp::acceptor full(context, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
  ASSERT_EQ(::listen(full.native_handle(), 0), 0);
  std::vector<tcp::socket> filling;
  for (int i = 0; i < 8; ++i) {
    filling.emplace_back(context).open(tcp::v4());
    filling.back().native_non_blocking(true);
    const tcp::endpoint to = full.local_endpoint();
    (void)::connect(filling.back().native_handle(), to.data(),  // EINPROGRESS
                    static_cast<socklen_t>(to.size()));
  }
  auto client = std::make_shared<RecordingHandler>();
  const auto connection = dial_and_wait(transport, {"127.0.0.1", full.local_endpoint().port()},
                                        Deadline::after(milliseconds(200)), client);
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code(), ErrorCode::kDeadlineExceeded);
}

TEST(TcpTransportTest, Ipv6AndLocalhostWork) {
  NetworkThread thread;
  TcpTransport transport(thread);
  for (const char* host : {"localhost", "::1"}) {
    auto listener = transport.listen({host, 0}, [](const auto&) { return nullptr; });
    if (!listener && std::string_view(host) == "::1") continue;  // no IPv6 on this machine
    ASSERT_TRUE(listener) << listener.error().message();
    auto client = std::make_shared<RecordingHandler>();
    EXPECT_TRUE(dial_and_wait(transport, (*listener)->endpoint(), soon(), client)) << host;
  }
}

}  // namespace
}  // namespace paceline::net
