// paceline worker: a stage process.
#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "coordinator/local_workers.h"
#include "engine/devices.h"
#include "net/tcp_transport.h"
#include "shard/form_cache.h"
#include "worker/worker.h"

namespace paceline::cli {
namespace {

struct WorkerFlags {
  std::string listen = "127.0.0.1:7400";
  std::vector<std::string> packages;
  std::string name;
  std::string log_level = "info";
  std::uint32_t threads = 0;
  std::uint32_t poll_ms = 20;
  std::string cache;
  bool insecure = false;
};

/// Where compiled stages may be; empty: nowhere.
std::filesystem::path forms_directory(const WorkerFlags& flags) {
  if (!flags.cache.empty()) return flags.cache;
  return shard::FormCache::default_directory().value_or(std::filesystem::path());
}

std::string host_name() {
  std::array<char, 256> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Status serve(const WorkerFlags& flags) {
  interrupt_flag();
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  worker::WorkerOptions options;
  PACELINE_ASSIGN_OR_RETURN(options.endpoint, net::parse_endpoint(flags.listen));
  options.insecure = flags.insecure;
  options.threads = flags.threads;
  options.poll_time = std::chrono::milliseconds(flags.poll_ms);
  options.identity.name = flags.name.empty() ? host_name() : flags.name;
  options.identity.openvino_version = engine::openvino_version();
  options.identity.isa = engine::cpu_isa();
  const std::vector<std::filesystem::path> paths(flags.packages.begin(), flags.packages.end());
  PACELINE_ASSIGN_OR_RETURN(const auto store, worker::PackageStore::open(paths));
  const SteadyClock clock;
  net::NetworkThread thread;
  net::TcpTransport transport(thread);
  PACELINE_ASSIGN_OR_RETURN(
      const auto worker, worker::Worker::start(transport, store,
                                               worker::make_stage_loader(
                                                   store, {flags.threads, forms_directory(flags)}),
                                               clock, options));
  fmt::print("{}{}\n", coordinator::kListeningPrefix, worker->endpoint().to_string());
  std::fflush(stdout);
  wait_for_interrupt();
  return {};
}

}  // namespace

void add_worker_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<WorkerFlags>();
  CLI::App* command = app.add_subcommand("worker", "Serve stages of a chain on this machine");
  command->add_option("--listen", flags->listen, "Address and port; port 0 takes a free one")
      ->capture_default_str();
  command
      ->add_option("--package,-p", flags->packages,
                   "A package, or a directory of packages, that may be served; may be repeated")
      ->take_all()
      ->expected(1);
  command->add_option("--name", flags->name, "What others call this worker; the host's name");
  command->add_option("--threads", flags->threads, "Threads per stage; 0: the device's choice")
      ->capture_default_str();
  command->add_option("--cache", flags->cache,
                      "Where paceline precompile has put stages for the stateful engine; "
                      "$XDG_CACHE_HOME/paceline/forms if not given");
  command
      ->add_option("--poll-ms", flags->poll_ms,
                   "Look for the next step so long before sleeping: a core that sleeps between the "
                   "turns of a chain computes slower; 0 saves power")
      ->check(CLI::Range(0U, 1000U))
      ->capture_default_str();
  command->add_option("--log-level", flags->log_level, "debug, info, warn, error or off")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  command->add_flag("--insecure", flags->insecure,
                    "Listen beyond loopback although frames are not encrypted yet");
  command->callback([flags, &done] { done = serve(*flags); });
}

}  // namespace paceline::cli
