// A package of a running worker, to be fetched from: the client of package_server.h.
//
// Nothing that comes is trusted: each piece is the one asked for, in order and in time, and memory
// is bounded by the pieces in flight. Hashes are for who asks (shard::fetch_layers).
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "net/tcp_options.h"
#include "net/transport.h"
#include "shard/package.h"
#include "shard/package_source.h"
#include "wire/messages.h"

namespace paceline::worker {

struct RemotePackageOptions {
  std::string address;  ///< "host:port" of the worker
  std::string digest;   ///< empty: the worker's only package
  std::string name;     ///< what the worker is told of who asks
  Duration connect_timeout = std::chrono::seconds(10);
  /// Asked while it waits; false ends that with kCancelled. Empty: it is always wanted.
  shard::IsWanted is_wanted;
  /// For each piece, from when all before it have come.
  Duration piece_timeout = std::chrono::seconds(60);
  /// Between the pings of keep_alive(): well below WorkerOptions::fetcher_silence.
  Duration ping_interval = std::chrono::seconds(15);
};

/// Limits of a connection to a worker that is fetched from: no frame is larger than a piece.
net::TcpOptions fetcher_tcp_options();

/// Thread-compatible; not for the network thread. `transport` must outlive it.
class RemotePackage final : public shard::PackageSource {
 public:
  /// Requests that are unanswered at once.
  static constexpr std::size_t kWindow = 8;

  /// Dials, greets and chooses the package. Errors name the address: kNotFound lists what the
  /// worker has, kInvalidArgument where it has several and `digest` names none.
  static Result<std::unique_ptr<RemotePackage>> connect(net::Transport& transport,
                                                        const RemotePackageOptions& options);
  ~RemotePackage() override;

  const std::string& name() const override { return options_.address; }
  const std::string& digest() const { return options_.digest; }
  /// kDataLoss where it does not have the digest.
  Result<std::string> read_manifest_text() override;
  Status read(std::span<const shard::FileRange> ranges, const shard::PieceSink& sink) override;
  void keep_alive() override;

 private:
  class Handler;
  /// A piece that was asked for and has not come.
  struct Expected {
    std::size_t range;
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  /// How far a read has asked.
  struct Cursor {
    std::deque<Expected> window;
    std::size_t range = 0;
    std::uint64_t asked = 0;  ///< of this range
  };
  explicit RemotePackage(RemotePackageOptions options) : options_(std::move(options)) {}
  Status greet();
  Status choose(const std::vector<wire::HeldPackage>& packages);
  Status request(const shard::FileRange& range);
  /// Asks for the next pieces, until kWindow are unanswered.
  Status ask_ahead(std::span<const shard::FileRange> ranges, Cursor& cursor);
  /// The answer to the oldest request, which is for bytes at `offset`.
  Result<wire::Frame> receive(std::uint64_t offset);

  RemotePackageOptions options_;
  SteadyClock clock_;
  TimePoint last_ping_ = {};
  std::shared_ptr<Handler> handler_;
  std::shared_ptr<net::Connection> connection_;
};

}  // namespace paceline::worker
