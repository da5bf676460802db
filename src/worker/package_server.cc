#include "worker/package_server.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "shard/data_file.h"
#include "shard/package.h"

namespace paceline::worker {
namespace {

constexpr int kNiceness = 10;

/// On Linux priorities are a thread's own.
void lower_priority() {
  if (::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness) != 0) {
    spdlog::debug("the package server keeps its priority");
  }
}

/// Counts the requests of a client whose answers are not wholly sent. Apart from the client,
/// because frames hold it, and a connection that held its own client would never go.
class Places {
 public:
  bool take() {
    if (taken_.fetch_add(1) < PackageServer::kMaxUnsent) return true;
    --taken_;
    return false;
  }
  void give_back() { --taken_; }

 private:
  std::atomic<int> taken_ = 0;
};

/// The bytes of a piece; it gives its place back when they are sent, or with the connection.
struct Buffer {
  Buffer(std::shared_ptr<Places> its_places, std::vector<std::byte> its_bytes)
      : places(std::move(its_places)), bytes(std::move(its_bytes)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { places->give_back(); }
  std::shared_ptr<Places> places;
  std::vector<std::byte> bytes;
};

}  // namespace

class PackageServer::Client {
 public:
  Client(std::shared_ptr<net::Connection> connection, std::shared_ptr<std::atomic<int>> clients)
      : connection_(std::move(connection)), clients_(std::move(clients)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { --*clients_; }

  net::Connection& connection() const { return *connection_; }
  const std::shared_ptr<Places>& places() const { return places_; }

 private:
  const std::shared_ptr<net::Connection> connection_;
  const std::shared_ptr<std::atomic<int>> clients_;
  const std::shared_ptr<Places> places_ = std::make_shared<Places>();
};

PackageServer::PackageServer(const PackageStore& store, const Clock& clock,
                             std::function<bool()> is_computing)
    : store_(store),
      clock_(clock),
      is_computing_(std::move(is_computing)),
      queue_(std::size_t{kMaxClients} * kMaxUnsent + 1, clock) {
  queue_.push_always(lower_priority);
}

Result<std::shared_ptr<PackageServer::Client>> PackageServer::admit(
    std::shared_ptr<net::Connection> connection) {
  if (clients_->fetch_add(1) >= kMaxClients) {
    --*clients_;
    return fail(ErrorCode::kResourceExhausted,
                "this worker serves {} fetchers already; try again later", kMaxClients);
  }
  return std::make_shared<Client>(std::move(connection), clients_);
}

Status PackageServer::read(const std::shared_ptr<Client>& client, wire::ReadPiece request) {
  if (!client->places()->take()) {
    return fail(ErrorCode::kResourceExhausted, "more than {} pieces are asked for at once",
                kMaxUnsent);
  }
  // Weak: what a gone client asked for is not read any more.
  return queue_.push([this, weak = std::weak_ptr(client), request = std::move(request)] {
    if (const auto living = weak.lock()) serve(living, request);
  });
}

void PackageServer::yield_to_steps() const {
  const TimePoint end = clock_.now() + kMaxYield;
  while (is_computing_() && clock_.now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void PackageServer::serve(const std::shared_ptr<Client>& client, const wire::ReadPiece& request) {
  yield_to_steps();
  auto answer = piece(client, request);
  if (!answer) {
    spdlog::info("{}: {} of {:.12}: {}", client->connection().peer(), request.file,
                 request.package_digest, answer.error().message());
    client->places()->give_back();
    answer = wire::Frame{
        {},
        wire::Fault{answer.error().code(), answer.error().message(), wire::Kind::kReadPiece},
        {}};
  }
  // Where this fails the connection is going down, and with it the client.
  if (const auto sent = client->connection().send(*std::move(answer)); !sent) {
    spdlog::debug("{}: {}", client->connection().peer(), sent.error().message());
  }
}

Status PackageServer::verify(const StoredPackage& package, const wire::ReadPiece& request) {
  const shard::Manifest& manifest = package.manifest;
  Verified& verified = verified_[manifest.digest];
  if (request.file != shard::kWeightsFile) {
    if (verified.files[request.file]) return {};
    if (request.file == shard::kManifestFile) {
      PACELINE_ASSIGN_OR_RETURN(const auto now, shard::read_manifest(package.directory));
      if (now.digest != manifest.digest) {
        return fail(ErrorCode::kDataLoss, "{}: its {} has changed since this worker started",
                    package.directory.string(), shard::kManifestFile);
      }
    } else {
      PACELINE_RETURN_IF_ERROR(shard::verify_file(package.directory, manifest, request.file));
    }
    verified.files[request.file] = true;
    return {};
  }
  const auto extent = manifest.extent_with(request.offset, request.bytes);
  if (!extent) {
    return fail(ErrorCode::kOutOfRange, "{} bytes at offset {} of {} are not in one extent",
                request.bytes, request.offset, request.file);
  }
  verified.extents.resize(manifest.extents.size());
  if (verified.extents[*extent]) return {};
  PACELINE_RETURN_IF_ERROR(shard::verify_extent(package.directory, manifest, *extent));
  verified.extents[*extent] = true;
  return {};
}

Result<wire::Frame> PackageServer::piece(const std::shared_ptr<Client>& client,
                                         const wire::ReadPiece& request) {
  PACELINE_ASSIGN_OR_RETURN(const StoredPackage* package, store_.find(request.package_digest));
  // Only names that the manifest has, which stay in the directory, reach the file system.
  const bool is_of_package = request.file == shard::kManifestFile ||
                             request.file == shard::kWeightsFile ||
                             package->manifest.files.contains(request.file);
  if (!is_of_package) {
    return fail(ErrorCode::kNotFound, "{}: is not of the package {:.12}", request.file,
                request.package_digest);
  }
  PACELINE_RETURN_IF_ERROR(verify(*package, request));
  PACELINE_ASSIGN_OR_RETURN(const auto file,
                            shard::DataFile::open(package->directory / request.file));
  if (request.offset >= file.size()) {
    return fail(ErrorCode::kOutOfRange, "offset {} is beyond the {} bytes of {}", request.offset,
                file.size(), request.file);
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(
      std::min<std::uint64_t>(request.bytes, file.size() - request.offset)));
  PACELINE_RETURN_IF_ERROR(file.read(request.offset, bytes));
  // From here on the buffer gives the place back.
  const auto buffer = std::make_shared<Buffer>(client->places(), std::move(bytes));
  wire::Frame frame;
  frame.message = wire::Piece{request.offset, file.size()};
  frame.tensors = {{wire::kPieceTensor,
                    ElementType::kU8,
                    {buffer->bytes.size()},
                    wire::SharedBytes(buffer, buffer->bytes)}};
  return frame;
}

}  // namespace paceline::worker
