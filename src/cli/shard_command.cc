// paceline shard export and paceline shard fetch: parts of packages.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/layers_flag.h"
#include "cli/progress_bar.h"
#include "cli/report.h"
#include "compiler/export_stage.h"
#include "net/tcp_transport.h"
#include "shard/fetch.h"
#include "worker/remote_package.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;

struct ShardFlags {
  std::string source;
  std::string output;
  std::string layers;
  std::string digest;
  std::uint32_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool json = false;
};

Status export_shard(const ShardFlags& flags) {
  interrupt_flag();
  PACELINE_ASSIGN_OR_RETURN(const LayerRange layers, parse_layers(flags.layers));
  const SteadyClock clock;
  const auto report = [&] {
    ProgressBar bar(clock);
    return compiler::export_stage(flags.source, flags.output, {layers, flags.jobs}, bar);
  }();
  if (!report) return fail(report.error());
  if (flags.json) {
    const nlohmann::json json = {{"directory", flags.output},
                                 {"layers", {layers.begin, layers.end}},
                                 {"graph_bytes", report->graph_bytes},
                                 {"weight_bytes", report->weight_bytes}};
    fmt::print("{}\n", json.dump());
    return {};
  }
  fmt::print("{}: layers {}:{}, graph {}, weights {}\n", flags.output, layers.begin, layers.end,
             human_bytes(report->graph_bytes), human_bytes(report->weight_bytes));
  return {};
}

Status check_digest_flag(const std::string& digest) {
  if (digest.empty() || shard::sha256_from_hex(digest)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "--digest: expected 64 lower-case hexadecimal digits, got {:.80}", digest);
}

/// A directory where there is one, else a running worker.
class Source {
 public:
  static Result<std::unique_ptr<Source>> open(const ShardFlags& flags) {
    auto source = std::make_unique<Source>();
    std::error_code code;
    if (fs::is_directory(flags.source, code)) {
      source->package_ = std::make_unique<shard::DirectorySource>(flags.source);
      return source;
    }
    if (!net::parse_endpoint(flags.source)) {
      return fail(ErrorCode::kNotFound,
                  "{}: is neither a package directory nor a worker's HOST:PORT", flags.source);
    }
    source->thread_ = std::make_unique<net::NetworkThread>();
    source->transport_ =
        std::make_unique<net::TcpTransport>(*source->thread_, worker::fetcher_tcp_options());
    worker::RemotePackageOptions options;
    options.address = flags.source;
    options.digest = flags.digest;
    options.name = "shard fetch";
    options.is_wanted = [] { return !interrupt_flag().load(); };
    PACELINE_ASSIGN_OR_RETURN(source->package_,
                              worker::RemotePackage::connect(*source->transport_, options));
    return source;
  }
  shard::PackageSource& package() { return *package_; }

 private:
  std::unique_ptr<net::NetworkThread> thread_;
  std::unique_ptr<net::TcpTransport> transport_;
  std::unique_ptr<shard::PackageSource> package_;
};

void show_fetched(const ShardFlags& flags, const shard::FetchReport& report, Duration time) {
  const double seconds = to_seconds(time);
  if (flags.json) {
    const nlohmann::json json = {{"directory", flags.output},
                                 {"digest", report.digest},
                                 {"layers", {report.layers.begin, report.layers.end}},
                                 {"present_bytes", report.present_bytes},
                                 {"fetched_bytes", report.fetched_bytes},
                                 {"seconds", seconds}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{}: layers {}:{} are whole, digest {}; {} were there, {} fetched in {:.1f} s\n",
             flags.output, report.layers.begin, report.layers.end, report.digest,
             human_bytes(report.present_bytes), human_bytes(report.fetched_bytes), seconds);
}

Status fetch_shard(const ShardFlags& flags) {
  const auto& interrupted = interrupt_flag();
  PACELINE_RETURN_IF_ERROR(check_digest_flag(flags.digest));
  shard::FetchOptions options;
  if (!flags.layers.empty()) {
    PACELINE_ASSIGN_OR_RETURN(options.layers, parse_layers(flags.layers));
  }
  options.digest = flags.digest;
  options.threads = flags.jobs;
  options.is_wanted = [&interrupted] { return !interrupted.load(); };
  PACELINE_ASSIGN_OR_RETURN(const auto source, Source::open(flags));
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  const auto report = [&] {
    ProgressBar bar(clock);
    options.progress = [&bar](std::string_view phase, std::uint64_t done, std::uint64_t total) {
      bar.update(phase, done, total);
    };
    return shard::fetch_layers(source->package(), flags.output, options);
  }();
  if (!report) return fail(report.error());
  show_fetched(flags, *report, clock.now() - begin);
  return {};
}

void add_common(CLI::App& command, ShardFlags& flags) {
  command.add_option("--jobs,-j", flags.jobs, "Threads that verify")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
  command.add_flag("--json", flags.json, "The outcome as JSON");
}

}  // namespace

void add_shard_command(CLI::App& app, Status& done) {
  CLI::App* shard = app.add_subcommand("shard", "Parts of packages: export or fetch layers");
  shard->require_subcommand(1);

  auto exported = std::make_shared<ShardFlags>();
  CLI::App* command =
      shard->add_subcommand("export", "Write layers as a stateful IR that any OpenVINO reads");
  command->add_option("package", exported->source, "The package directory")->required();
  command->add_option("-o,--output", exported->output, "The directory to make")->required();
  add_layers_flag(*command, exported->layers)->required();
  add_common(*command, *exported);
  command->callback([exported, &done] { done = export_shard(*exported); });

  auto fetched = std::make_shared<ShardFlags>();
  command = shard->add_subcommand(
      "fetch",
      "Fill a sparse package with what layers need; the same command goes on after an end");
  command->add_option("source", fetched->source, "A package directory, or HOST:PORT of a worker")
      ->required();
  command->add_option("-o,--output", fetched->output, "The directory to fill")->required();
  add_layers_flag(*command, fetched->layers);
  command->add_option("--digest", fetched->digest,
                      "The package's digest: nothing else is taken, whoever the source is");
  add_common(*command, *fetched);
  command->callback([fetched, &done] { done = fetch_shard(*fetched); });
}

}  // namespace paceline::cli
