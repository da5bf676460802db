#include "worker/stage_loader.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>

#include "engine/paged_engine.h"
#include "engine/stateful_engine.h"
#include "shard/form_cache.h"
#include "shard/package.h"
#include "shard/stage_memory.h"
#include "system/memory.h"

namespace paceline::worker {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
/// What engines can address; also keeps the sums below far from an overflow.
constexpr std::uint64_t kMaxKvTokens = 1ULL << 30;

Status check_memory(const shard::Manifest& manifest, const wire::AssignStage& assignment) {
  const std::uint64_t kv_tokens =
      std::uint64_t{assignment.kv_blocks} * assignment.logical_block_tokens;
  if (kv_tokens > kMaxKvTokens) {
    return fail(ErrorCode::kInvalidArgument, "{} KV blocks of {} tokens are more than {} tokens",
                assignment.kv_blocks, assignment.logical_block_tokens, kMaxKvTokens);
  }
  const shard::StageMemory needed =
      shard::estimate_stage_memory(manifest, assignment.layers, assignment.profile, kv_tokens);
  PACELINE_ASSIGN_OR_RETURN(const auto memory, system::machine_memory());
  if (needed.total_bytes() <= memory.available_bytes) return {};
  return fail(ErrorCode::kResourceExhausted,
              "layers {}-{} need {} MiB ({} weights, {} KV for {} tokens, {} process), {} MiB are "
              "free; lower --ctx or use more workers",
              assignment.layers.begin, assignment.layers.end, needed.total_bytes() / kMiB,
              needed.weight_bytes / kMiB, needed.kv_bytes / kMiB, kv_tokens,
              needed.process_bytes / kMiB, memory.available_bytes / kMiB);
}

/// Nothing where there is none, or none can be had: then the stage is compiled.
std::optional<shard::FormCache> open_forms(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored)) return std::nullopt;
  auto cache = shard::FormCache::open(directory);
  if (cache) return *std::move(cache);
  spdlog::warn("compiled stages are not used: {}", cache.error().message());
  return std::nullopt;
}

Result<std::unique_ptr<engine::StageEngine>> load(const PackageStore& store,
                                                  const LoaderOptions& loading,
                                                  const wire::AssignStage& assignment) {
  PACELINE_ASSIGN_OR_RETURN(const auto* package, store.find(assignment.package_digest));
  PACELINE_RETURN_IF_ERROR(package->manifest.check_range(assignment.layers));
  PACELINE_RETURN_IF_ERROR(check_memory(package->manifest, assignment));
  const std::uint32_t threads = assignment.threads > 0 ? assignment.threads : loading.threads;
  shard::VerifyOptions verification;
  verification.layers = assignment.layers;
  verification.threads = std::max(1U, threads);
  const auto verify = [&] {
    return shard::verify(package->directory, package->manifest, verification);
  };
  engine::StageOptions options;
  options.package = package->directory;
  options.layers = assignment.layers;
  options.profile = assignment.profile;
  options.threads = threads;
  options.kv_blocks = assignment.kv_blocks;
  options.logical_block_tokens = assignment.logical_block_tokens;
  options.context_tokens = assignment.context_tokens;
  if (assignment.engine == EngineKind::kStateful) {
    const auto forms = open_forms(loading.forms);
    return engine::load_stateful_engine(
        options, {forms ? &*forms : nullptr, assignment.package_digest, verify});
  }
  PACELINE_RETURN_IF_ERROR(verify());
  return engine::load_paged_engine(options);
}

}  // namespace

StageLoader make_stage_loader(const PackageStore& store, const LoaderOptions& options) {
  return [&store, options](const wire::AssignStage& assignment) {
    return load(store, options, assignment);
  };
}

}  // namespace paceline::worker
