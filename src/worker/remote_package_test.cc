// Fetching from a running worker, and from what only says it were one.
#include "worker/remote_package.h"

#include <gmock/gmock.h>

#include "shard/fetch.h"
#include "shard/package.h"
#include "worker/fetch_testing.h"

namespace paceline::worker {
namespace {

using testing::HasSubstr;

class RemotePackageTest : public ServingWorkerTest {
 protected:
  std::filesystem::path target() const { return root_ / "target"; }
  Result<std::unique_ptr<RemotePackage>> connect(const std::string& digest = "") {
    RemotePackageOptions options;
    options.address = address();
    options.digest = digest;
    options.name = "a test";
    return RemotePackage::connect(transport_, options);
  }
  Status verify_layers(LayerRange range) const {
    shard::VerifyOptions options;
    options.layers = range;
    return shard::verify(target(), store_.packages().front().manifest, options);
  }
};

TEST_F(RemotePackageTest, LayersComeFromARunningWorkerAndMoreLater) {
  start_worker();
  shard::FetchOptions options;
  options.layers = LayerRange{1, 3};
  for (const LayerRange range : {LayerRange{1, 3}, LayerRange{0, 4}}) {
    auto remote = connect(digest());
    ASSERT_TRUE(remote) << remote.error().message();
    options.layers = range;
    const auto report = shard::fetch_layers(**remote, target(), options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->digest, digest());
    EXPECT_TRUE(verify_layers(range));
  }
}

TEST_F(RemotePackageTest, AFetchedRangeIsServedOn) {
  start_worker();
  shard::FetchOptions options;
  options.layers = LayerRange{1, 3};
  ASSERT_TRUE(shard::fetch_layers(**connect(), target(), options));
  worker_.reset();
  start_worker(target());
  auto remote = connect();
  ASSERT_TRUE(remote);
  ASSERT_TRUE(shard::fetch_layers(**remote, root_ / "third", options));
  options.layers = LayerRange{1, 4};
  const auto more = shard::fetch_layers(**remote, root_ / "third", options);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(more.error().message(), HasSubstr(address() + ": openvino_model.bin: "));
  EXPECT_THAT(more.error().message(), HasSubstr("extent 5 is missing"));
}

TEST_F(RemotePackageTest, TheOnlyPackageIsChosenOthersAreListed) {
  start_worker();
  const auto only = connect();
  ASSERT_TRUE(only);
  EXPECT_EQ((*only)->digest(), digest());
  const auto none = connect(std::string(64, '1'));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message(), HasSubstr("it has " + digest()));
}

TEST_F(RemotePackageTest, NobodyThereIsNamed) {
  start_worker();
  RemotePackageOptions options;
  options.address = "127.0.0.1:1";
  const auto nobody = RemotePackage::connect(transport_, options);
  ASSERT_FALSE(nobody);
  EXPECT_THAT(nobody.error().message(), HasSubstr("127.0.0.1:1"));
  options.address = "nonsense";
  EXPECT_FALSE(RemotePackage::connect(transport_, options));
}

/// Says what a test wants it to say.
class HostileWorkerTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kMiB = 1ULL << 20;

  /// One connection of it.
  class Handler final : public net::ConnectionHandler {
   public:
    Handler(HostileWorkerTest& test, std::shared_ptr<net::Connection> connection)
        : test_(test), connection_(std::move(connection)) {}
    void on_frame(wire::Frame frame) override {
      if (std::holds_alternative<wire::Hello>(frame.message)) {
        test_.on_hello(*connection_);
      } else if (const auto* read = std::get_if<wire::ReadPiece>(&frame.message)) {
        test_.on_read(*connection_, *read);
      }
    }
    void on_closed(const Error&) override { connection_.reset(); }

   private:
    HostileWorkerTest& test_;
    std::shared_ptr<net::Connection> connection_;
  };

  void SetUp() override {
    listener_ = transport_
                    .listen({"127.0.0.1", 0},
                            [this](const std::shared_ptr<net::Connection>& connection) {
                              return std::make_shared<Handler>(*this, connection);
                            })
                    .value();
    welcome_.version = 2;
    welcome_.packages = {{digest_, "a model"}};
    on_hello = [this](net::Connection& peer) { EXPECT_TRUE(peer.send({{}, welcome_, {}})); };
  }
  Result<std::unique_ptr<RemotePackage>> connect() {
    RemotePackageOptions options;
    options.address = listener_->endpoint().to_string();
    options.connect_timeout = options.piece_timeout = std::chrono::milliseconds(500);
    return RemotePackage::connect(transport_, options);
  }
  static wire::Frame piece(std::uint64_t offset, std::uint64_t bytes, std::uint64_t file_bytes) {
    std::vector<std::byte> data(bytes, std::byte{'x'});
    return {{},
            wire::Piece{offset, file_bytes},
            {{wire::kPieceTensor, ElementType::kU8, {bytes}, wire::SharedBytes::own(data)}}};
  }
  /// Reads 3 MiB from it; what the sink gets is counted.
  Status read() {
    auto remote = connect();
    if (!remote) return fail(remote.error());
    const std::vector<shard::FileRange> ranges = {{"a", 0, kMiB / 2}, {"b", 7, 5 * kMiB / 2}};
    return (*remote)->read(ranges, [this](std::size_t, std::span<const std::byte> bytes) {
      got_ += bytes.size();
      return Status();
    });
  }
  void expect_read_fails(ErrorCode code, const char* message) {
    const auto status = read();
    ASSERT_FALSE(status) << message;
    EXPECT_EQ(status.error().code(), code) << status.error().message();
    EXPECT_THAT(status.error().message(), HasSubstr(message));
    EXPECT_THAT(status.error().message(), HasSubstr(listener_->endpoint().to_string()));
  }
  void expect_manifest_fails(const char* message) {
    auto remote = connect();
    ASSERT_TRUE(remote);
    const auto text = (*remote)->read_manifest_text();
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code(), ErrorCode::kDataLoss) << text.error().message();
    EXPECT_THAT(text.error().message(), HasSubstr(message));
  }

  std::function<void(net::Connection&)> on_hello;
  std::function<void(net::Connection&, const wire::ReadPiece&)> on_read;
  std::string digest_ = std::string(64, 'a');
  wire::Welcome welcome_;
  std::atomic<std::uint64_t> got_ = 0;
  std::atomic<int> reads_ = 0;
  net::NetworkThread thread_;
  net::LoopbackTransport transport_{thread_};
  std::unique_ptr<net::Listener> listener_;
};

TEST_F(HostileWorkerTest, AnHonestOneIsReadToTheEnd) {
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {
    EXPECT_LE(read.bytes, kMiB);
    EXPECT_EQ(read.package_digest, digest_);
    EXPECT_TRUE(peer.send(piece(read.offset, read.bytes, 9 * kMiB)));
  };
  EXPECT_TRUE(read());
  EXPECT_EQ(got_, 3 * kMiB);
}

TEST_F(HostileWorkerTest, PiecesThatWereNotAskedForAreRefused) {
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {
    EXPECT_TRUE(peer.send(piece(read.offset + 1, read.bytes, 9 * kMiB)));
  };
  expect_read_fails(ErrorCode::kDataLoss, "a: sent bytes at offset 1, asked for 0");
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {
    EXPECT_TRUE(peer.send(piece(read.offset, read.bytes - 1, 9 * kMiB)));
  };
  expect_read_fails(ErrorCode::kDataLoss, "sent 524287 bytes at offset 0, asked for 524288");
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {
    EXPECT_TRUE(peer.send(piece(read.offset, kMiB, 9 * kMiB)));
  };
  expect_read_fails(ErrorCode::kDataLoss, "sent 1048576 bytes at offset 0, asked for 524288");
  EXPECT_EQ(got_, 0U);
  on_read = [&](net::Connection& peer, const wire::ReadPiece&) {
    EXPECT_TRUE(peer.send({{}, wire::Pong{}, {}}));
  };
  expect_read_fails(ErrorCode::kDataLoss, "expected a piece, got pong");
}

TEST_F(HostileWorkerTest, OneThatNeverEndsEndsTheFetchNotTheMemory) {
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {
    if (reads_++ > 0) return;
    for (int i = 0; i < 100; ++i) (void)peer.send(piece(read.offset, read.bytes, 9 * kMiB));
  };
  const auto status = read();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kDataLoss) << status.error().message();
  EXPECT_LE(got_, kMiB / 2);
}

TEST_F(HostileWorkerTest, OneThatDoesNotAnswerIsNotWaitedForForever) {
  on_read = [](net::Connection&, const wire::ReadPiece&) {};
  expect_read_fails(ErrorCode::kDeadlineExceeded, "did not answer in time");
  on_read = [](net::Connection& peer, const wire::ReadPiece&) {
    peer.close(Error(ErrorCode::kCancelled, "enough"));
  };
  EXPECT_FALSE(read());
  on_hello = [](net::Connection&) {};
  EXPECT_EQ(connect().error().code(), ErrorCode::kDeadlineExceeded);
}

TEST_F(HostileWorkerTest, AFaultIsTheError) {
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {
    if (reads_++ == 0) {
      EXPECT_TRUE(peer.send(piece(read.offset, read.bytes, 9 * kMiB)));
    } else {
      (void)peer.send({{}, wire::Fault{ErrorCode::kNotFound, "gone", wire::Kind::kReadPiece}, {}});
    }
  };
  expect_read_fails(ErrorCode::kNotFound, "b: gone");
  EXPECT_EQ(got_, kMiB / 2);
}

TEST_F(HostileWorkerTest, AManifestEndsAndHasItsDigest) {
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {
    (void)peer.send(piece(read.offset, 10, 10));
  };
  expect_manifest_fails("paceline.json: does not have the digest aaaa");
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {
    (void)peer.send(piece(read.offset, kMiB, 1ULL << 53));
  };
  expect_manifest_fails("of 9007199254740992 bytes, at most 67108864 are read");
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {  // always a little more
    ++reads_;
    (void)peer.send(piece(read.offset, kMiB, read.offset + kMiB + 1));
  };
  expect_manifest_fails("at most 67108864 are read");
  EXPECT_LE(reads_, 65);
  on_read = [&](net::Connection& peer, const wire::ReadPiece& read) {  // byte by byte
    (void)peer.send(piece(read.offset, 1, 1000));
  };
  expect_manifest_fails("got 1 of 1000 bytes");
}

TEST_F(HostileWorkerTest, WelcomesAreChecked) {
  welcome_.packages.clear();
  EXPECT_THAT(connect().error().message(), HasSubstr("has no package; it has none"));
  welcome_.packages = {{digest_, "one"}, {std::string(64, 'b'), "two"}};
  const auto several = connect();
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(several.error().message(), HasSubstr("--digest"));
  EXPECT_THAT(several.error().message(), HasSubstr("(two)"));
  on_hello = [](net::Connection& peer) { (void)peer.send({{}, wire::Goodbye{"bye"}, {}}); };
  EXPECT_THAT(connect().error().message(), HasSubstr("expected a welcome, got goodbye"));
  on_hello = [](net::Connection& peer) {
    (void)peer.send({{}, wire::Fault{ErrorCode::kUnimplemented, "hello.role", {}}, {}});
  };
  EXPECT_THAT(connect().error().message(), HasSubstr("hello.role"));
}

}  // namespace
}  // namespace paceline::worker
