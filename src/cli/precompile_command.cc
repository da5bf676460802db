// paceline precompile: fills the local cache with what OpenVINO can import, and tidies it.
#include <fmt/core.h>

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
#include "engine/devices.h"
#include "engine/precompile.h"
#include "shard/form_cache.h"
#include "shard/package.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;

struct PrecompileFlags {
  std::string package;
  std::string device = "CPU";
  std::string layers;
  std::string engine = "stateful";
  std::string profile = "fast";
  std::string cache;
  double limit_gib = static_cast<double>(shard::kDefaultFormLimitBytes >> 30U);
  std::uint32_t threads = 0;
  bool prune = false;
  bool json = false;
};

Result<shard::FormCache> open_cache(const PrecompileFlags& flags) {
  fs::path directory = flags.cache;
  if (directory.empty()) {
    PACELINE_ASSIGN_OR_RETURN(directory, shard::FormCache::default_directory());
  }
  return shard::FormCache::open(directory,
                                static_cast<std::uint64_t>(flags.limit_gib * (1ULL << 30U)));
}

Status prune(const PrecompileFlags& flags, const shard::FormCache& cache) {
  PACELINE_ASSIGN_OR_RETURN(const auto report, cache.prune(engine::openvino_version()));
  if (flags.json) {
    const nlohmann::json json = {{"cache", cache.directory().string()},
                                 {"removed", report.removed},
                                 {"removed_bytes", report.removed_bytes},
                                 {"kept", report.kept},
                                 {"kept_bytes", report.kept_bytes}};
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("{}: {} forms of no use removed ({}), {} kept ({})\n", cache.directory().string(),
               report.removed, human_bytes(report.removed_bytes), report.kept,
               human_bytes(report.kept_bytes));
  }
  return {};
}

/// Verifies what the layers need, with a bar.
Status verify_layers(const PrecompileFlags& flags, const shard::Manifest& manifest,
                     LayerRange layers) {
  const SteadyClock clock;
  ProgressBar bar(clock);
  shard::VerifyOptions options;
  options.layers = layers;
  options.threads = std::max(1U, std::thread::hardware_concurrency());
  options.progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.update("verifying", done, total);
  };
  options.is_wanted = [] { return !interrupt_flag().load(); };
  return shard::verify(flags.package, manifest, options);
}

/// Says that nothing is done, and why.
Status skip_paged(const PrecompileFlags& flags, const engine::FormOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const std::string why, engine::why_paged_is_not_imported(options));
  const std::string reason =
      why.empty() ? "it would, but the paged engine of this paceline always compiles" : why;
  if (flags.json) {
    const nlohmann::json json = {{"engine", "paged"}, {"stored", false}, {"reason", reason}};
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("nothing is done: OpenVINO {} does not import paged stages on {}: {}\n",
               engine::openvino_version(), flags.device, reason);
  }
  return {};
}

void show(const PrecompileFlags& flags, const engine::PrecompileReport& report, LayerRange layers) {
  if (!report.warning.empty()) fmt::print(stderr, "warning: {}\n", report.warning);
  const double compile_ms = to_milliseconds(report.without_cache);
  const double import_ms = to_milliseconds(report.with_cache);
  if (flags.json) {
    const nlohmann::json json = {{"engine", "stateful"},
                                 {"device", flags.device},
                                 {"layers", {layers.begin, layers.end}},
                                 {"profile", flags.profile},
                                 {"stored", true},
                                 {"was_there", report.was_there},
                                 {"reason", report.reason},
                                 {"compile_ms", compile_ms},
                                 {"import_ms", import_ms},
                                 {"form_bytes", report.form_bytes}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("layers {}:{} on {}, {}: {}\n", layers.begin, layers.end, flags.device, flags.profile,
             report.was_there ? "in the cache already" : "compiled, " + report.reason);
  fmt::print("ready in {:.0f} ms without the cache, in {:.0f} ms with it ({})\n", compile_ms,
             import_ms, human_bytes(report.form_bytes));
}

Status precompile(const PrecompileFlags& flags) {
  interrupt_flag();
  PACELINE_ASSIGN_OR_RETURN(const auto cache, open_cache(flags));
  if (flags.package.empty()) {
    if (flags.prune) return prune(flags, cache);
    return fail(ErrorCode::kInvalidArgument, "expected a package, or --prune");
  }
  PACELINE_ASSIGN_OR_RETURN(const auto manifest, shard::read_manifest(flags.package));
  PACELINE_ASSIGN_OR_RETURN(const LayerRange layers, layers_or_all(flags.layers, manifest.layers));
  engine::FormOptions options;
  options.package = flags.package;
  options.package_digest = manifest.digest;
  options.layers = layers;
  options.device = flags.device;
  options.profile = flags.profile == "exact" ? Profile::kExact : Profile::kFast;
  options.threads = flags.threads;
  options.before_reading = [&] { return verify_layers(flags, manifest, layers); };
  if (flags.engine == "paged") return skip_paged(flags, options);
  PACELINE_ASSIGN_OR_RETURN(const auto report, engine::precompile(options, cache));
  show(flags, report, layers);
  return flags.prune ? prune(flags, cache) : Status();
}

}  // namespace

void add_precompile_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<PrecompileFlags>();
  CLI::App* command = app.add_subcommand(
      "precompile", "Fill the local cache with compiled layers, or tidy it with --prune");
  command->add_option("package", flags->package, "The package directory");
  add_layers_flag(*command, flags->layers);
  command->add_option("--device", flags->device, "As paceline doctor lists them")
      ->capture_default_str();
  command->add_option("--engine", flags->engine, "stateful or paged")
      ->check(CLI::IsMember({"stateful", "paged"}))
      ->capture_default_str();
  command->add_option("--profile", flags->profile, "fast or exact")
      ->check(CLI::IsMember({"fast", "exact"}))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads per stage; 0: the device's choice")
      ->capture_default_str();
  command->add_option("--cache", flags->cache,
                      "The cache's directory; $XDG_CACHE_HOME/paceline/forms if not given");
  command->add_option("--cache-limit", flags->limit_gib, "GiB that the cache may hold")
      ->check(CLI::Range(0.001, 1048576.0))
      ->capture_default_str();
  command->add_flag("--prune", flags->prune,
                    "Remove forms that are damaged, of another OpenVINO, or beyond the limit");
  command->add_flag("--json", flags->json, "The outcome as JSON");
  command->callback([flags, &done] { done = precompile(*flags); });
}

}  // namespace paceline::cli
