// Pieces of packages, as a fetcher asks for them.
#include "worker/package_server.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <fstream>
#include <latch>
#include <mutex>
#include <thread>

#include "net/tcp_transport.h"
#include "shard/data_file.h"
#include "shard/package.h"
#include "worker/fetch_testing.h"
#include "worker/remote_package.h"

namespace paceline::worker {
namespace {

using testing::HasSubstr;

std::string bytes_of(const wire::Frame& frame) {
  const auto bytes = frame.tensors.at(0).data.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Over the loopback transport, from a worker.
class ServedPackageTest : public ServingWorkerTest {
 protected:
  /// The answer to a request of this peer.
  static wire::Frame ask(Peer& peer, const wire::ReadPiece& request) {
    EXPECT_TRUE(peer.send({}, request));
    const auto frames = peer.handler->wait_for_frames(peer.received + 1);
    EXPECT_GT(frames.size(), peer.received);
    return frames.at(peer.received++);
  }
  static wire::Fault fault(Peer& peer, const wire::ReadPiece& request) {
    const wire::Frame frame = ask(peer, request);
    const auto* fault = std::get_if<wire::Fault>(&frame.message);
    EXPECT_NE(fault, nullptr);
    if (fault == nullptr) return {};
    EXPECT_EQ(fault->regarding, wire::Kind::kReadPiece);
    return *fault;
  }
  std::string file_bytes(const char* name, std::uint64_t offset, std::uint64_t bytes) const {
    const auto file = shard::DataFile::open(package() / name).value();
    std::vector<std::byte> data(bytes);
    EXPECT_TRUE(file.read(offset, data));
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
};

TEST_F(ServedPackageTest, PiecesOfEveryFileComeAsTheyAre) {
  start_worker();
  Peer peer = fetcher();
  const auto check = [&](const char* name, std::uint64_t offset, std::uint32_t bytes) {
    const wire::Frame frame = ask(peer, {digest(), name, offset, bytes});
    const auto* piece = std::get_if<wire::Piece>(&frame.message);
    ASSERT_NE(piece, nullptr) << name;
    const std::uint64_t size = std::filesystem::file_size(package() / name);
    EXPECT_EQ(piece->offset, offset);
    EXPECT_EQ(piece->file_bytes, size);
    EXPECT_EQ(bytes_of(frame),
              file_bytes(name, offset, std::min<std::uint64_t>(bytes, size - offset)));
  };
  check(shard::kManifestFile, 0, kMiB);
  check(shard::kManifestFile, 100, 7);
  check("config.json", 0, 2);
  check("config.json", 1, kMiB);
  check(shard::kWeightsFile, 3 * kMiB, kMiB);
  check(shard::kWeightsFile, 19 * kMiB + 5, 1000);
  check(shard::kWeightsFile, 22 * kMiB + 999, 1);
}

TEST_F(ServedPackageTest, WhatIsNotThereIsAFaultAndTheNextIsServed) {
  write_text(package() / "letter.txt", "dear");
  start_worker();
  std::ofstream(package() / "secret.txt") << "not of the package";
  Peer peer = fetcher();
  const struct {
    wire::ReadPiece request;
    ErrorCode code;
    const char* message;
  } cases[] = {
      {{"other", "config.json", 0, 1}, ErrorCode::kNotFound, "no package with digest other"},
      {{digest(), "secret.txt", 0, 1}, ErrorCode::kNotFound, "secret.txt: is not of the package"},
      {{digest(), "../package/config.json", 0, 1}, ErrorCode::kNotFound, "is not of the package"},
      {{digest(), "/etc/passwd", 0, 1}, ErrorCode::kNotFound, "is not of the package"},
      {{digest(), "config.json", 2, 1},
       ErrorCode::kOutOfRange,
       "beyond the 2 bytes of config.json"},
      {{digest(), shard::kWeightsFile, 19 * kMiB - 1, 2}, ErrorCode::kOutOfRange, "not in one"},
      {{digest(), shard::kWeightsFile, 22 * kMiB + 1000, 1}, ErrorCode::kOutOfRange, "not in one"},
      {{digest(), shard::kWeightsFile, 1ULL << 53, 1}, ErrorCode::kOutOfRange, "not in one extent"},
  };
  for (const auto& bad : cases) {
    const wire::Fault told = fault(peer, bad.request);
    EXPECT_EQ(told.code, bad.code) << told.message;
    EXPECT_THAT(told.message, HasSubstr(bad.message));
    EXPECT_EQ(bytes_of(ask(peer, {digest(), "letter.txt", 0, 9})), "dear");
  }
}

TEST_F(ServedPackageTest, OnlyWhatIsVerifiedIsSent) {
  start_worker();
  {
    std::fstream file(package() / shard::kWeightsFile, std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(20 * kMiB + 500000));
    file.put('!');
  }
  write_text(package() / "config.json", "[]");
  Peer peer = fetcher();
  const auto damaged = fault(peer, {digest(), shard::kWeightsFile, 20 * kMiB, 10});
  EXPECT_EQ(damaged.code, ErrorCode::kDataLoss);
  EXPECT_THAT(damaged.message, HasSubstr("extent 4 is damaged"));
  EXPECT_EQ(fault(peer, {digest(), "config.json", 0, 2}).code, ErrorCode::kDataLoss);
  ask(peer, {digest(), shard::kWeightsFile, 21 * kMiB, 10});
  std::ofstream(package() / shard::kManifestFile, std::ios::app) << "\n";
  const auto changed = fault(peer, {digest(), shard::kManifestFile, 0, 10});
  EXPECT_EQ(changed.code, ErrorCode::kDataLoss);
  EXPECT_THAT(changed.message, HasSubstr("has changed since this worker started"));
}

TEST_F(ServedPackageTest, ASparseCopyServesWhatItHolds) {
  make_package();
  ASSERT_TRUE(shard::copy_range(package(), root_ / "sparse", {1, 3}));
  start_worker(root_ / "sparse");
  Peer peer = fetcher();
  ask(peer, {digest(), shard::kWeightsFile, 19 * kMiB, kMiB});
  const auto missing = fault(peer, {digest(), shard::kWeightsFile, 21 * kMiB, kMiB});
  EXPECT_EQ(missing.code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.message, HasSubstr("extent 5 is missing"));
}

TEST_F(ServedPackageTest, AFetcherNeedsItsRoleItsVersionAndAPlace) {
  start_worker();
  Peer coordinator = greet(wire::Role::kCoordinator);
  ASSERT_TRUE(coordinator.send({}, wire::ReadPiece{digest(), "config.json", 0, 1}));
  EXPECT_THAT(coordinator.receive<wire::Fault>().message, HasSubstr("not expected"));
  Peer old = dial();
  ASSERT_TRUE(old.send({}, hello(wire::Role::kFetcher, {1, 1})));
  EXPECT_THAT(old.receive<wire::Fault>().message, HasSubstr("speaks protocol version 2 or later"));

  std::vector<Peer> fetchers;
  for (int i = 0; i < PackageServer::kMaxClients; ++i) fetchers.push_back(fetcher());
  Peer late = dial();
  ASSERT_TRUE(late.send({}, hello(wire::Role::kFetcher, {1, 2})));
  const auto refused = late.receive<wire::Fault>();
  EXPECT_EQ(refused.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.message, HasSubstr("serves 4 fetchers already"));
  fetchers.back().close();
  fetchers.back().handler->wait_for_close();
  Peer next = fetcher();
  ask(next, {digest(), "config.json", 0, 1});
  ASSERT_TRUE(next.send({}, wire::LinkStage{"digest", {0, 1}, {1, 2}, {}, "", "", 1, {}}));
  EXPECT_THAT(next.receive<wire::Fault>().message, HasSubstr("not expected"));
}

/// Over TCP, which knows silence; fetchers may be silent for 400 ms.
class SilentFetcherTest : public ServingWorkerTest {
 protected:
  void SetUp() override {
    ServingWorkerTest::SetUp();
    make_package();
    store_ = PackageStore::open({package()}).value();
    WorkerOptions options;
    options.fetcher_silence = std::chrono::milliseconds(400);
    worker_ = Worker::start(tcp_, store_, {}, clock_, options).value();
  }
  void TearDown() override {
    worker_.reset();
    ServingWorkerTest::TearDown();
  }
  Peer fetcher_over_tcp() {
    Peer peer;
    peer.connection =
        net::dial_and_wait(tcp_, worker_->endpoint(), net::soon(), peer.handler).value();
    EXPECT_TRUE(peer.send({}, hello(wire::Role::kFetcher, {1, 2})));
    peer.receive<wire::Welcome>();
    return peer;
  }
  net::TcpTransport tcp_{thread_};
};

TEST_F(SilentFetcherTest, LosesItsPlace) {
  std::vector<Peer> fetchers;
  for (int i = 0; i < PackageServer::kMaxClients; ++i) fetchers.push_back(fetcher_over_tcp());
  for (Peer& peer : fetchers) ASSERT_TRUE(peer.handler->wait_for_close());
  // The places are free once the worker's side has let go of the connections, too.
  for (int i = 0; i < PackageServer::kMaxClients; ++i) fetcher_over_tcp();
}

TEST_F(SilentFetcherTest, IsNotSilentWhereItKeepsItselfAlive) {
  RemotePackageOptions options;
  options.address = address();
  options.ping_interval = std::chrono::milliseconds(50);
  const auto remote = RemotePackage::connect(tcp_, options);
  ASSERT_TRUE(remote) << remote.error().message();
  for (int i = 0; i < 20; ++i) {
    (*remote)->keep_alive();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  // 1 s after the greeting; pongs are not taken for the answer.
  const auto text = (*remote)->read_manifest_text();
  ASSERT_TRUE(text) << text.error().message();
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_FALSE((*remote)->read_manifest_text());
}

/// Keeps every frame, as a connection whose peer does not read.
class KeepingConnection final : public net::Connection {
 public:
  Status send(wire::Frame frame) override {
    const std::lock_guard lock(mutex_);
    frames_.push_back(std::move(frame));
    changed_.notify_all();
    return {};
  }
  void close(Error) override {}
  void set_silence_limit(Duration) override {}
  const std::string& peer() const override { return peer_; }

  bool wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return frames_.size() >= count; });
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return frames_.size();
  }
  void drop_frames() {
    const std::lock_guard lock(mutex_);
    frames_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<wire::Frame> frames_;
  std::string peer_ = "a peer";
};

/// The server alone.
class PackageServerTest : public shard::PackageTestBase {
 protected:
  void SetUp() override {
    PackageTestBase::SetUp();
    digest_ = make_package().digest;
    store_ = PackageStore::open({package()}).value();
  }
  wire::ReadPiece request() const { return {digest_, "config.json", 0, 1}; }

  std::string digest_;
  PackageStore store_;
  SteadyClock clock_;
  std::shared_ptr<KeepingConnection> connection_ = std::make_shared<KeepingConnection>();
};

TEST_F(PackageServerTest, AFetcherThatDoesNotReadStopsItselfAlone) {
  PackageServer server(store_, clock_, [] { return false; });
  const auto client = server.admit(connection_).value();
  for (int i = 0; i < PackageServer::kMaxUnsent; ++i) ASSERT_TRUE(server.read(client, request()));
  ASSERT_TRUE(connection_->wait_for(PackageServer::kMaxUnsent));
  const auto refused = server.read(client, request());
  ASSERT_FALSE(refused) << "nothing was sent yet";
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);

  const auto other = std::make_shared<KeepingConnection>();
  const auto other_client = server.admit(other).value();
  ASSERT_TRUE(server.read(other_client, request()));
  EXPECT_TRUE(other->wait_for(1));
  connection_->drop_frames();  // as if they were sent
  EXPECT_TRUE(server.read(client, request()));
  EXPECT_TRUE(connection_->wait_for(1));
  server.end();
}

TEST_F(PackageServerTest, FaultsTakeNoPlace) {
  PackageServer server(store_, clock_, [] { return false; });
  const auto client = server.admit(connection_).value();
  for (int i = 0; i < 3 * PackageServer::kMaxUnsent; ++i) {
    ASSERT_TRUE(server.read(client, {digest_, "none", 0, 1}));
    ASSERT_TRUE(connection_->wait_for(static_cast<std::size_t>(i) + 1));
  }
  server.end();
}

TEST_F(PackageServerTest, StepsGoFirstForABoundedTime) {
  std::atomic<int> asked = 0;
  PackageServer server(store_, clock_, [&] { return ++asked > 0; });
  const auto client = server.admit(connection_).value();
  const TimePoint begin = clock_.now();
  ASSERT_TRUE(server.read(client, request()));
  ASSERT_TRUE(connection_->wait_for(1)) << "although a step computes all the time";
  EXPECT_GE(clock_.now() - begin, PackageServer::kMaxYield);
  EXPECT_GT(asked, 1);
  server.end();
}

TEST_F(PackageServerTest, WhatAGoneClientAskedForIsNotRead) {
  std::latch serving{1};
  std::latch go_on{1};
  std::atomic<int> asked = 0;
  PackageServer server(store_, clock_, [&] {
    if (asked++ > 0) return false;
    serving.count_down();
    go_on.wait();
    return false;
  });
  const auto other = std::make_shared<KeepingConnection>();
  auto client = server.admit(connection_).value();
  const auto staying = server.admit(other).value();
  ASSERT_TRUE(server.read(staying, request()));
  serving.wait();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(server.read(client, request()));
  client.reset();
  ASSERT_TRUE(server.read(staying, request()));
  go_on.count_down();
  ASSERT_TRUE(other->wait_for(2));
  EXPECT_EQ(connection_->count(), 0U);
  EXPECT_EQ(asked, 2);
  server.end();
  EXPECT_EQ(server.read(staying, request()).error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace paceline::worker
