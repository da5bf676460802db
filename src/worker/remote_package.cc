#include "worker/remote_package.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "base/version.h"
#include "net/endpoint.h"
#include "shard/sha256.h"
#include "wire/frame_header.h"

namespace paceline::worker {
namespace {

constexpr auto kWantedInterval = std::chrono::milliseconds(100);

}  // namespace

net::TcpOptions fetcher_tcp_options() {
  net::TcpOptions options;
  options.limits.header_bytes = 1U << 20;
  options.limits.payload_bytes = options.limits.piece_bytes;
  options.send_queue_bytes = std::size_t{1} << 20;
  return options;
}

/// Keeps what has come until it is asked for; never more than the answers that are owed.
class RemotePackage::Handler final : public net::ConnectionHandler {
 public:
  void on_frame(wire::Frame frame) override {
    const std::lock_guard lock(mutex_);
    if (owed_pongs_ > 0 && std::holds_alternative<wire::Pong>(frame.message)) {
      --owed_pongs_;
      return;
    }
    if (owed_ == 0) {
      if (!end_) end_ = Error(ErrorCode::kDataLoss, "sent what was not asked for");
    } else {
      --owed_;
      frames_.push_back(std::move(frame));
    }
    changed_.notify_all();
  }
  void on_closed(const Error& reason) override {
    const std::lock_guard lock(mutex_);
    if (!end_) end_ = reason;
    changed_.notify_all();
  }

  /// One more frame may come.
  void owe() {
    const std::lock_guard lock(mutex_);
    ++owed_;
  }

  /// One more pong may come, which nobody waits for.
  void owe_pong() {
    const std::lock_guard lock(mutex_);
    ++owed_pongs_;
  }

  /// The next frame; a Fault is an error.
  Result<wire::Frame> wait(Deadline deadline, const shard::IsWanted& is_wanted) {
    std::unique_lock lock(mutex_);
    while (frames_.empty() && !end_ && !deadline.has_passed()) {
      if (is_wanted && !is_wanted())
        return fail(ErrorCode::kCancelled, "the fetch was interrupted");
      changed_.wait_for(lock, std::min<Duration>(deadline.left(), kWantedInterval));
    }
    if (frames_.empty()) {
      if (end_) return fail(*end_);
      return fail(ErrorCode::kDeadlineExceeded, "did not answer in time");
    }
    wire::Frame frame = std::move(frames_.front());
    frames_.pop_front();
    if (auto* fault = std::get_if<wire::Fault>(&frame.message)) {
      return fail(Error(fault->code, std::move(fault->message)));
    }
    return frame;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<wire::Frame> frames_;
  std::size_t owed_ = 0;
  std::size_t owed_pongs_ = 0;
  std::optional<Error> end_;
};

RemotePackage::~RemotePackage() {
  if (connection_) connection_->close(Error(ErrorCode::kCancelled, "the fetch has ended"));
}

Result<std::unique_ptr<RemotePackage>> RemotePackage::connect(net::Transport& transport,
                                                              const RemotePackageOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const auto endpoint, net::parse_endpoint(options.address));
  std::unique_ptr<RemotePackage> package(new RemotePackage(options));
  package->handler_ = std::make_shared<Handler>();
  PACELINE_ASSIGN_OR_RETURN(
      package->connection_,
      net::dial_and_wait(transport, endpoint, Deadline::after(options.connect_timeout),
                         package->handler_));
  if (const Status greeted = package->greet(); !greeted) {
    return fail(greeted.error().with_context(options.address));
  }
  return package;
}

Status RemotePackage::greet() {
  wire::Hello hello;
  hello.versions = {wire::version_of(wire::Kind::kReadPiece), wire::kProtocolVersions.max};
  hello.software_version = kVersion;
  hello.role = wire::Role::kFetcher;
  hello.name = options_.name;
  handler_->owe();
  PACELINE_RETURN_IF_ERROR(connection_->send({{}, std::move(hello), {}}));
  PACELINE_ASSIGN_OR_RETURN(
      const wire::Frame frame,
      handler_->wait(Deadline::after(options_.connect_timeout), options_.is_wanted));
  const auto* welcome = std::get_if<wire::Welcome>(&frame.message);
  if (welcome == nullptr) {
    return fail(ErrorCode::kDataLoss, "expected a welcome, got {}",
                to_string(wire::kind_of(frame.message)));
  }
  return choose(welcome->packages);
}

Status RemotePackage::choose(const std::vector<wire::HeldPackage>& packages) {
  std::string held;
  for (const wire::HeldPackage& package : packages) {
    if (!options_.digest.empty() && package.digest == options_.digest) return {};
    held += fmt::format("{}{} ({})", held.empty() ? "" : ", ", package.digest, package.source);
  }
  if (!options_.digest.empty() || packages.empty()) {
    return fail(ErrorCode::kNotFound, "has no {}; it has {}",
                options_.digest.empty() ? "package" : "package " + options_.digest,
                held.empty() ? "none" : held);
  }
  if (packages.size() > 1) {
    return fail(ErrorCode::kInvalidArgument, "has several packages, name one with --digest: {}",
                held);
  }
  options_.digest = packages.front().digest;
  return {};
}

Status RemotePackage::request(const shard::FileRange& range) {
  handler_->owe();
  return connection_->send({{},
                            wire::ReadPiece{options_.digest, range.file, range.offset,
                                            static_cast<std::uint32_t>(range.bytes)},
                            {}});
}

Result<wire::Frame> RemotePackage::receive(std::uint64_t offset) {
  PACELINE_ASSIGN_OR_RETURN(
      wire::Frame frame,
      handler_->wait(Deadline::after(options_.piece_timeout), options_.is_wanted));
  const auto* piece = std::get_if<wire::Piece>(&frame.message);
  if (piece == nullptr) {
    return fail(ErrorCode::kDataLoss, "expected a piece, got {}",
                to_string(wire::kind_of(frame.message)));
  }
  if (piece->offset != offset) {
    return fail(ErrorCode::kDataLoss, "sent bytes at offset {}, asked for {}", piece->offset,
                offset);
  }
  return frame;
}

Result<std::string> RemotePackage::read_manifest_text() {
  const auto named = [this](const Error& error) {
    return fail(error.with_context(fmt::format("{}: {}", name(), shard::kManifestFile)));
  };
  std::string text;
  std::uint64_t size = 0;
  do {
    if (const Status sent = request({shard::kManifestFile, text.size(), shard::kMaxPieceBytes});
        !sent) {
      return named(sent.error());
    }
    const auto frame = receive(text.size());
    if (!frame) return named(frame.error());
    const auto bytes = frame->tensors.front().data.bytes();
    size = std::get<wire::Piece>(frame->message).file_bytes;
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());  // NOLINT: text
    const bool is_short = text.size() < size && bytes.size() < shard::kMaxPieceBytes;
    if (size > shard::kMaxManifestBytes || is_short) {
      return named(
          Error(ErrorCode::kDataLoss, fmt::format("got {} of {} bytes, at most {} are read",
                                                  bytes.size(), size, shard::kMaxManifestBytes)));
    }
  } while (text.size() < size);
  if (shard::to_hex(shard::sha256(text)) == options_.digest) return text;
  return named(
      Error(ErrorCode::kDataLoss, fmt::format("does not have the digest {}", options_.digest)));
}

void RemotePackage::keep_alive() {
  const TimePoint now = clock_.now();
  if (now - last_ping_ < options_.ping_interval) return;
  last_ping_ = now;
  handler_->owe_pong();
  // Where this fails, so will the next request, which says why.
  (void)connection_->send({{}, wire::Ping(), {}});
}

Status RemotePackage::ask_ahead(std::span<const shard::FileRange> ranges, Cursor& cursor) {
  while (cursor.window.size() < kWindow && cursor.range < ranges.size()) {
    const shard::FileRange& range = ranges[cursor.range];
    const std::uint64_t bytes = std::min(shard::kMaxPieceBytes, range.bytes - cursor.asked);
    if (bytes > 0) {
      const std::uint64_t offset = range.offset + cursor.asked;
      cursor.window.push_back({cursor.range, offset, bytes});
      PACELINE_RETURN_IF_ERROR(request({range.file, offset, bytes}));
      cursor.asked += bytes;
    }
    if (cursor.asked < range.bytes) continue;
    ++cursor.range;
    cursor.asked = 0;
  }
  return {};
}

Status RemotePackage::read(std::span<const shard::FileRange> ranges, const shard::PieceSink& sink) {
  Cursor cursor;
  while (true) {
    if (const Status asked = ask_ahead(ranges, cursor); !asked) {
      return fail(asked.error().with_context(name()));
    }
    if (cursor.window.empty()) return {};
    const Expected expected = cursor.window.front();
    cursor.window.pop_front();
    const auto named = [&](const Error& error) {
      return fail(error.with_context(fmt::format("{}: {}", name(), ranges[expected.range].file)));
    };
    const auto frame = receive(expected.offset);
    if (!frame) return named(frame.error());
    const auto bytes = frame->tensors.front().data.bytes();
    if (bytes.size() != expected.bytes) {
      return named(
          Error(ErrorCode::kDataLoss, fmt::format("sent {} bytes at offset {}, asked for {}",
                                                  bytes.size(), expected.offset, expected.bytes)));
    }
    PACELINE_RETURN_IF_ERROR(sink(expected.range, bytes));
  }
}

}  // namespace paceline::worker
