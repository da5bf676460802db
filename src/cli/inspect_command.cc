// paceline inspect and paceline verify: what a package holds, and whether it is whole.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/layers_flag.h"
#include "cli/progress_bar.h"
#include "cli/report.h"
#include "shard/package.h"
#include "shard/stage_memory.h"

namespace paceline::cli {
namespace {

nlohmann::json manifest_json(const shard::Manifest& manifest) {
  const shard::PartBytes bytes = manifest.part_bytes();
  const LayerRange all = manifest.all_layers();
  return {{"name", manifest.model.name},
          {"architecture", manifest.model.architecture},
          {"source", manifest.model.source},
          {"digest", manifest.digest},
          {"layers", manifest.layers},
          {"hidden_size", manifest.hidden_size},
          {"vocabulary_size", manifest.vocabulary_size},
          {"context_tokens", manifest.context_tokens},
          {"quantization", manifest.quantization},
          {"sampling", to_json(manifest.model.sampling)},
          {"weight_bytes", manifest.weight_bytes},
          {"layer_bytes", bytes.layers},
          {"embedding_bytes", bytes.embedding},
          {"head_bytes", bytes.head},
          {"shared_bytes", bytes.shared},
          {"kv_bytes_per_token",
           {{"fast", shard::paged_kv_bytes_per_token(manifest, all, Profile::kFast)},
            {"exact", shard::paged_kv_bytes_per_token(manifest, all, Profile::kExact)}}}};
}

/// "do_sample true, temperature 0.6".
std::string sampling_text(const SamplingDefaults& sampling) {
  std::string text;
  const nlohmann::ordered_json json = to_json(sampling);
  for (const auto& [name, value] : json.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value.dump());
  }
  return text;
}

Status inspect(const std::string& package, bool as_json) {
  PACELINE_ASSIGN_OR_RETURN(const auto manifest, shard::read_manifest(package));
  if (as_json) {
    fmt::print("{}\n", manifest_json(manifest).dump(2));
    return {};
  }
  const shard::PartBytes bytes = manifest.part_bytes();
  const LayerRange all = manifest.all_layers();
  std::uint64_t layer_bytes = 0;
  for (const std::uint64_t layer : bytes.layers) layer_bytes += layer;
  fmt::print("model         {} ({}, from {})\n", manifest.model.name, manifest.model.architecture,
             manifest.model.source);
  fmt::print("digest        {}\n", manifest.digest);
  fmt::print("layers        {}, hidden size {}, vocabulary {}, context {}\n", manifest.layers,
             manifest.hidden_size, manifest.vocabulary_size, manifest.context_tokens);
  fmt::print("weights       {}: embedding {}, layers {}, head {}\n",
             human_bytes(manifest.weight_bytes), human_bytes(bytes.embedding),
             human_bytes(layer_bytes), human_bytes(bytes.head));
  fmt::print("quantization  {}\n", manifest.quantization);
  if (!manifest.model.sampling.empty()) {
    fmt::print("sampling      {}\n", sampling_text(manifest.model.sampling));
  }
  fmt::print("KV per token  {} (fast), {} (exact)\n",
             human_bytes(shard::paged_kv_bytes_per_token(manifest, all, Profile::kFast)),
             human_bytes(shard::paged_kv_bytes_per_token(manifest, all, Profile::kExact)));
  return {};
}

struct VerifyFlags {
  std::string package;
  std::string layers;
  std::uint32_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool json = false;
};

void show_whole(const VerifyFlags& flags, const shard::Manifest& manifest, LayerRange range,
                Duration time) {
  const double seconds = to_seconds(time);
  if (flags.json) {
    const nlohmann::json json = {{"package", flags.package},
                                 {"digest", manifest.digest},
                                 {"layers", {range.begin, range.end}},
                                 {"files", manifest.files.size()},
                                 {"extents", manifest.extents_of(range).size()},
                                 {"weight_bytes", manifest.bytes_of(range)},
                                 {"seconds", seconds}};
    fmt::print("{}\n", json.dump());
  } else if (range == manifest.all_layers()) {
    fmt::print("{}: whole, digest {}\n", flags.package, manifest.digest);
  } else {
    fmt::print("{}: layers {}:{} are whole, digest {}\n", flags.package, range.begin, range.end,
               manifest.digest);
  }
}

Status verify(const VerifyFlags& flags) {
  const auto& interrupted = interrupt_flag();
  PACELINE_ASSIGN_OR_RETURN(const auto manifest, shard::read_manifest(flags.package));
  PACELINE_ASSIGN_OR_RETURN(const LayerRange range, layers_or_all(flags.layers, manifest.layers));
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  shard::VerifyOptions options;
  options.layers = range;
  options.threads = flags.jobs;
  options.is_wanted = [&interrupted] { return !interrupted.load(); };
  {
    ProgressBar bar(clock);
    options.progress = [&](std::uint64_t done, std::uint64_t all) {
      bar.update("verifying", done, all);
    };
    PACELINE_RETURN_IF_ERROR(shard::verify(flags.package, manifest, options));
  }
  show_whole(flags, manifest, range, clock.now() - begin);
  return {};
}

}  // namespace

void add_inspect_command(CLI::App& app, Status& done) {
  auto package = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("inspect", "Show what a package holds");
  command->add_option("package", *package, "The package directory")->required();
  command->add_flag("--json", *as_json, "As JSON");
  command->callback([=, &done] { done = inspect(*package, *as_json); });
}

void add_verify_command(CLI::App& app, Status& done) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = app.add_subcommand("verify", "Check every byte of a package by its hashes");
  command->add_option("package", flags->package, "The package directory")->required();
  add_layers_flag(*command, flags->layers);
  command->add_option("--jobs,-j", flags->jobs, "Threads")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "The outcome as JSON");
  command->callback([flags, &done] { done = verify(*flags); });
}

}  // namespace paceline::cli
