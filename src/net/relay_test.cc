#include "net/relay.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <ctime>
#include <thread>

#include "net/net_test_util.h"
#include "net/relay_pipe.h"
#include "net/tcp_transport.h"
#include "wire/codec.h"

namespace paceline::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<std::byte> some(std::size_t count, int value = 1) {
  return std::vector(count, static_cast<std::byte>(value));
}

TEST(RelayPipeTest, PiecesAreDueTheirOwnArrivalPlusTheDelay) {
  RelayPipe pipe({.delay = milliseconds(50), .cut_after = {}, .stall_after = {}, .flip_at = {}});
  const TimePoint start{};
  for (int i = 0; i < 100; ++i) pipe.push(some(10, i), start + milliseconds(i / 50));
  EXPECT_FALSE(pipe.pop(start + milliseconds(49)));
  for (int i = 0; i < 50; ++i) {
    const auto piece = pipe.pop(start + milliseconds(50));
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->bytes, some(10, i));
  }
  EXPECT_FALSE(pipe.pop(start + milliseconds(50)));
  EXPECT_EQ(pipe.next_due(), start + milliseconds(51));
  EXPECT_EQ(pipe.held_bytes(), 500U);
  for (int i = 50; i < 100; ++i) EXPECT_TRUE(pipe.pop(start + milliseconds(51)));
  EXPECT_EQ(pipe.next_due(), std::nullopt);
}

TEST(RelayPipeTest, BandwidthMakesPiecesWaitForEachOther) {
  RelayDirection direction;
  direction.delay = milliseconds(50);
  direction.bytes_per_second = 1000;
  RelayPipe pipe(direction);
  const TimePoint start{};
  pipe.push(some(100), start);
  pipe.push(some(200), start);
  EXPECT_EQ(pipe.next_due(), start + milliseconds(150));
  ASSERT_TRUE(pipe.pop(start + milliseconds(150)));
  EXPECT_EQ(pipe.next_due(), start + milliseconds(350));
  ASSERT_TRUE(pipe.pop(start + milliseconds(350)));
  pipe.push_end(start + seconds(1));
  EXPECT_EQ(pipe.next_due(), start + milliseconds(1050)) << "an idle link is free at once";
}

RelayPipe::Piece pass(RelayPipe& pipe, std::vector<std::byte> bytes) {
  pipe.push(std::move(bytes), TimePoint{});
  return pipe.pop(TimePoint{}).value();
}

TEST(RelayPipeTest, FaultsHitTheByteTheyName) {
  RelayDirection flip;
  flip.flip_at = 5;
  RelayPipe flipping(flip);
  EXPECT_EQ(pass(flipping, some(4)).bytes, some(4));
  auto expected = some(4);
  expected[1] = std::byte{0xfe};
  EXPECT_EQ(pass(flipping, some(4)).bytes, expected);
  EXPECT_EQ(pass(flipping, some(4)).bytes, some(4));

  RelayDirection cut;
  cut.cut_after = 6;
  RelayPipe cutting(cut);
  EXPECT_FALSE(pass(cutting, some(4)).is_cut);
  const auto last = pass(cutting, some(4));
  EXPECT_TRUE(last.is_cut);
  EXPECT_EQ(last.bytes.size(), 2U);

  RelayDirection stall;
  stall.stall_after = 6;
  RelayPipe stalling(stall);
  EXPECT_EQ(pass(stalling, some(4)).bytes.size(), 4U);
  EXPECT_EQ(pass(stalling, some(4)).bytes.size(), 2U);
  EXPECT_EQ(pass(stalling, some(4)).bytes.size(), 0U);
  stalling.push_end(TimePoint{});
  EXPECT_FALSE(stalling.pop(TimePoint{})->is_end);
}

class RelayTest : public testing::Test {
 protected:
  /// A connection through a relay with these faults.
  std::shared_ptr<Connection> connect(RelayOptions options) {
    options.target = server_.endpoint();
    auto relay = Relay::start(thread_, options);
    EXPECT_TRUE(relay);
    relay_ = std::move(*relay);
    auto connection = dial_and_wait(transport_, relay_->endpoint(), soon(), client_);
    EXPECT_TRUE(connection);
    return *connection;
  }

  NetworkThread thread_;
  TcpTransport transport_{thread_};
  TestServer server_{transport_};
  std::unique_ptr<Relay> relay_;
  std::shared_ptr<RecordingHandler> client_ = std::make_shared<RecordingHandler>();
};

TEST_F(RelayTest, AHundredFramesSentTogetherArriveTogetherAfterTheDelay) {
  RelayOptions options;
  options.forward.delay = options.backward.delay = milliseconds(50);
  const auto connection = connect(options);
  ASSERT_TRUE(connection->send(hello()));
  ASSERT_EQ(server_.handler->wait_for_frames(1).size(), 1U);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(connection->send(ping(i)));
  const auto got = server_.handler->wait_for_frames(101);
  const auto taken = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(got.size(), 101U);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(nonce_of(got[i + 1]), i);
  EXPECT_GE(taken, milliseconds(50));
  EXPECT_LT(taken, seconds(1)) << "one after the other would take 5 s";
}

TEST_F(RelayTest, LargeFramesPassUnchangedBothWays) {
  RelayOptions options;
  options.forward.delay = milliseconds(5);
  options.buffer_bytes = 100000;  // so that it must stop reading and go on
  const auto connection = connect(options);
  const wire::Frame large = step_of(std::size_t{4} << 20, 13);
  ASSERT_TRUE(connection->send(hello()));
  ASSERT_TRUE(connection->send(large));
  const auto got = server_.handler->wait_for_frames(2);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1], large);
  const auto accepted = server_.accepted();
  ASSERT_TRUE(accepted->send({{}, wire::Welcome{}, {}}));
  ASSERT_TRUE(accepted->send(large));
  EXPECT_EQ(client_->wait_for_frames(2).at(1), large);
  connection->close(Error(ErrorCode::kCancelled, "done"));
  EXPECT_TRUE(server_.handler->wait_for_close()) << "the end is passed on";
}

TEST_F(RelayTest, ACutConnectionEndsOnBothSides) {
  RelayOptions options;
  options.forward.cut_after = 20;
  const auto connection = connect(options);
  ASSERT_TRUE(connection->send(hello()));
  const auto far = server_.handler->wait_for_close();
  ASSERT_TRUE(far);
  EXPECT_NE(far->message().find("in the middle of a frame"), std::string::npos) << far->message();
  EXPECT_TRUE(client_->wait_for_close());
  EXPECT_EQ(server_.handler->frame_count(), 0U);
}

TEST_F(RelayTest, AFlippedByteIsNoticed) {
  RelayOptions options;
  options.forward.flip_at = 1;
  const auto connection = connect(options);
  ASSERT_TRUE(connection->send(hello()));
  const auto reason = server_.handler->wait_for_close();
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->code(), ErrorCode::kDataLoss);
}

TEST_F(RelayTest, AStalledLinkStaysOpenAndACutEndsIt) {
  const auto connection = connect({});
  ASSERT_TRUE(connection->send(hello()));
  ASSERT_EQ(server_.handler->wait_for_frames(1).size(), 1U);
  relay_->stall();
  ASSERT_TRUE(connection->send(ping(1)));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(server_.handler->frame_count(), 1U);
  EXPECT_EQ(server_.handler->closed_count() + client_->closed_count(), 0);
  relay_->cut();
  EXPECT_TRUE(client_->wait_for_close());
  EXPECT_TRUE(server_.handler->wait_for_close());
}

/// Processor time of this process, in seconds.
double used_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST_F(RelayTest, OneSideMayEndWhileTheOtherGoesOn) {
  namespace asio = boost::asio;
  using asio::ip::tcp;
  asio::io_context context;
  tcp::acceptor target(context, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
  RelayOptions options;
  options.target = {"127.0.0.1", target.local_endpoint().port()};
  auto relay = Relay::start(thread_, options);
  ASSERT_TRUE(relay);
  tcp::socket near(context);
  near.connect({asio::ip::make_address("127.0.0.1"), (*relay)->endpoint().port});
  tcp::socket far = target.accept();
  near.shutdown(tcp::socket::shutdown_send);
  std::array<char, 4> bytes = {};
  boost::system::error_code error;
  EXPECT_EQ(far.read_some(asio::buffer(bytes), error), 0U);
  EXPECT_EQ(error, asio::error::eof);
  asio::write(far, asio::buffer("abcd", 4));
  EXPECT_EQ(asio::read(near, asio::buffer(bytes)), 4U);
  far.close();
  EXPECT_EQ(near.read_some(asio::buffer(bytes), error), 0U);
  EXPECT_EQ(error, asio::error::eof);
  const double before = used_seconds();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LT(used_seconds() - before, 0.15) << "an ended side is not read again and again";
}

TEST_F(RelayTest, ARefusingRelayClosesAtOnce) {
  RelayOptions options;
  options.refuse = true;
  const auto connection = connect(options);
  EXPECT_TRUE(client_->wait_for_close());
  options.target = {"no-address", 1};
  EXPECT_EQ(Relay::start(thread_, options).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace paceline::net
