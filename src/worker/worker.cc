#include "worker/worker.h"

#include <utility>

#include "base/version.h"
#include "system/memory.h"
#include "worker/package_server.h"
#include "worker/session.h"
#include "worker/stage_host.h"

namespace paceline::worker {
namespace {

wire::Welcome make_welcome(const WorkerOptions& options, const PackageStore& store) {
  wire::Welcome welcome;
  welcome.software_version = kVersion;
  welcome.name = options.identity.name;
  welcome.openvino_version = options.identity.openvino_version;
  welcome.isa = options.identity.isa;
  welcome.threads = options.threads;
  for (const StoredPackage& package : store.packages()) {
    welcome.packages.push_back({package.manifest.digest, package.manifest.model.name});
  }
  if (const auto memory = system::machine_memory()) {
    welcome.available_bytes = memory->available_bytes;
    welcome.total_bytes = memory->total_bytes;
  }
  return welcome;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::start(net::Transport& transport, const PackageStore& store,
                                              StageLoader loader, const Clock& clock,
                                              const WorkerOptions& options) {
  if (!options.insecure && !net::is_loopback(options.endpoint)) {
    return fail(ErrorCode::kPermissionDenied,
                "{}: reaches beyond this machine, and frames are not encrypted yet; use a loopback "
                "address, or --insecure in a network that you trust",
                options.endpoint.to_string());
  }
  auto host = std::make_shared<StageHost>(transport, std::move(loader), clock, options.identity,
                                          options.poll_time);
  auto packages = std::make_shared<PackageServer>(store, clock, [host] { return host->is_busy(); });
  auto accept = [host, packages, options, &store](const std::shared_ptr<net::Connection>& peer) {
    return std::make_shared<Session>(
        peer, host, packages, [options, &store] { return make_welcome(options, store); },
        options.fetcher_silence);
  };
  PACELINE_ASSIGN_OR_RETURN(auto listener, transport.listen(options.endpoint, std::move(accept)));
  return std::unique_ptr<Worker>(
      new Worker(std::move(host), std::move(packages), std::move(listener)));
}

Worker::Worker(std::shared_ptr<StageHost> host, std::shared_ptr<PackageServer> packages,
               std::unique_ptr<net::Listener> listener)
    : host_(std::move(host)), packages_(std::move(packages)), listener_(std::move(listener)) {}

// The queues' threads must end here: they may wait for the network thread, on which connections and
// with them the last owners of both end.
Worker::~Worker() {
  listener_.reset();
  packages_->end();
  host_->end();
}

}  // namespace paceline::worker
