#include "net/loopback_transport.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::net {

/// One end of a connection. What it sends is decoded on the network thread by the other end.
class LoopbackTransport::End final : public Connection, public std::enable_shared_from_this<End> {
 public:
  End(NetworkThread& thread, const LoopbackOptions& options, std::string peer)
      : thread_(thread),
        options_(options),
        peer_(std::move(peer)),
        decoder_(options.limits, options.first_frame) {}

  Status send(wire::Frame frame) override {
    PACELINE_ASSIGN_OR_RETURN(auto encoded, wire::encode(std::move(frame), options_.limits));
    const std::lock_guard lock(mutex_);
    if (end_) {
      return fail(ErrorCode::kUnavailable, "connection to {} is closed: {}", peer_,
                  end_->message());
    }
    if (queued_bytes_ > 0 && queued_bytes_ + encoded.size_bytes > options_.send_queue_bytes) {
      return fail(ErrorCode::kResourceExhausted, "connection to {}: {} bytes wait to be sent",
                  peer_, queued_bytes_);
    }
    queued_bytes_ += encoded.size_bytes;
    thread_.post([self = shared_from_this(), bytes = wire::flatten(encoded)] {
      {
        const std::lock_guard relock(self->mutex_);
        self->queued_bytes_ -= bytes.size();
      }
      if (const auto other = self->other_.lock()) other->receive(bytes);
    });
    return {};
  }

  void close(Error reason) override {
    const std::lock_guard lock(mutex_);
    if (end_) return;
    end_ = reason;
    thread_.post([self = shared_from_this(), reason = std::move(reason)] {
      self->notify_closed(reason);
      if (const auto other = self->other_.lock()) {
        other->lose(Error(ErrorCode::kUnavailable, "the peer closed the connection"));
      }
    });
  }

  /// Nothing: no link here can be cut without a word.
  void set_silence_limit(Duration) override {}

  const std::string& peer() const override { return peer_; }

  // Network thread only.
  void start(const std::shared_ptr<End>& other, std::shared_ptr<ConnectionHandler> handler) {
    other_ = other;
    keep_alive_ = shared_from_this();
    handler_ = std::move(handler);
  }
  void lose(const Error& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (!end_) end_ = reason;
    }
    notify_closed(reason);
  }

 private:
  void receive(std::span<const std::byte> bytes) {
    std::vector<wire::Frame> frames;
    const Status status = decoder_.feed(bytes, frames);
    for (wire::Frame& frame : frames) {
      if (has_ended()) return;
      const std::shared_ptr<ConnectionHandler> handler = handler_;
      handler->on_frame(std::move(frame));
    }
    if (!status && !has_ended()) close(status.error().with_context("refused"));
  }

  bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return end_.has_value();
  }

  void notify_closed(const Error& reason) {
    const std::shared_ptr<End> alive = std::exchange(keep_alive_, nullptr);
    const std::shared_ptr<ConnectionHandler> handler = std::exchange(handler_, nullptr);
    if (handler) handler->on_closed(reason);
  }

  NetworkThread& thread_;
  const LoopbackOptions options_;
  const std::string peer_;

  // Network thread only.
  std::weak_ptr<End> other_;
  std::shared_ptr<End> keep_alive_;  ///< itself, until it is closed
  std::shared_ptr<ConnectionHandler> handler_;
  wire::FrameDecoder decoder_;

  mutable std::mutex mutex_;
  std::size_t queued_bytes_ = 0;
  std::optional<Error> end_;
};

/// Network thread only.
struct LoopbackTransport::Ports {
  std::map<std::string, AcceptHandler> listening;
  std::vector<std::weak_ptr<End>> ends;
  std::uint16_t next_port = 40000;
};

class LoopbackTransport::LoopbackListener final : public Listener {
 public:
  LoopbackListener(NetworkThread& thread, std::shared_ptr<Ports> ports, Endpoint endpoint)
      : thread_(thread), ports_(std::move(ports)), endpoint_(std::move(endpoint)) {}
  ~LoopbackListener() override {
    thread_.run([this] { ports_->listening.erase(endpoint_.to_string()); });
  }
  const Endpoint& endpoint() const override { return endpoint_; }

 private:
  NetworkThread& thread_;
  const std::shared_ptr<Ports> ports_;
  const Endpoint endpoint_;
};

LoopbackTransport::LoopbackTransport(NetworkThread& thread, LoopbackOptions options)
    : thread_(thread), options_(options), ports_(std::make_shared<Ports>()) {}

LoopbackTransport::~LoopbackTransport() {
  thread_.run([this] {
    ports_->listening.clear();
    for (const auto& end : std::exchange(ports_->ends, {})) {
      if (const auto alive = end.lock()) {
        alive->lose(Error(ErrorCode::kCancelled, "the transport was closed"));
      }
    }
  });
}

Result<std::unique_ptr<Listener>> LoopbackTransport::listen(const Endpoint& endpoint,
                                                            AcceptHandler on_accept) {
  Endpoint bound = endpoint;
  bool is_taken = false;
  thread_.run([&] {
    if (bound.port == 0) bound.port = ports_->next_port++;
    is_taken = !ports_->listening.emplace(bound.to_string(), std::move(on_accept)).second;
  });
  if (is_taken) {
    return fail(ErrorCode::kUnavailable, "listen: {}: address in use", bound.to_string());
  }
  return std::make_unique<LoopbackListener>(thread_, ports_, bound);
}

void LoopbackTransport::dial(const Endpoint& endpoint, Deadline deadline,
                             std::shared_ptr<ConnectionHandler> handler, DialHandler done) {
  thread_.post([ports = ports_, &thread = thread_, options = options_, endpoint, deadline,
                handler = std::move(handler), done = std::move(done)] {
    if (deadline.has_passed()) {
      return done(fail(ErrorCode::kDeadlineExceeded, "{}: no connection in the time given",
                       endpoint.to_string()));
    }
    const auto found = ports->listening.find(endpoint.to_string());
    if (found == ports->listening.end()) {
      return done(fail(ErrorCode::kUnavailable, "{}: nobody listens", endpoint.to_string()));
    }
    const auto near = std::make_shared<End>(thread, options, endpoint.to_string());
    const auto far = std::make_shared<End>(thread, options, "loopback");
    auto far_handler = found->second(far);
    if (!far_handler) {
      return done(fail(ErrorCode::kUnavailable, "{}: refused", endpoint.to_string()));
    }
    std::erase_if(ports->ends, [](const auto& old) { return old.expired(); });
    ports->ends.insert(ports->ends.end(), {near, far});
    far->start(near, std::move(far_handler));
    near->start(far, handler);
    done(std::static_pointer_cast<Connection>(near));
  });
}

}  // namespace paceline::net
