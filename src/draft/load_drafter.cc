#include "draft/load_drafter.h"

#include <algorithm>
#include <utility>

#include "engine/paged_engine.h"
#include "shard/package.h"
#include "shard/stage_memory.h"
#include "system/memory.h"

namespace paceline::draft {
namespace {

constexpr std::uint32_t kBlockTokens = 32;
constexpr std::uint32_t kUnknownContext = 4096;
constexpr std::uint64_t kMiB = 1ULL << 20;

DrafterOptions drafter_options(const DraftSettings& settings, const shard::Manifest& manifest,
                               LayerRange layers) {
  DrafterOptions options;
  options.block_tokens = kBlockTokens;
  options.context_tokens = manifest.context_tokens > 0 ? manifest.context_tokens : kUnknownContext;
  if (settings.context_tokens > 0) {
    options.context_tokens = std::min(options.context_tokens, settings.context_tokens);
  }
  const std::uint64_t block_bytes =
      kBlockTokens * std::max<std::uint64_t>(
                         1, shard::paged_kv_bytes_per_token(manifest, layers, settings.profile));
  const std::uint64_t whole =
      (std::uint64_t{options.context_tokens} + kBlockTokens - 1) / kBlockTokens;
  // No more than all lines can use.
  const std::uint64_t blocks =
      std::min(settings.kv_memory_bytes / block_bytes, whole * settings.most_lines);
  options.kv_blocks =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, settings.most_lines, 1U << 20));
  return options;
}

Status check_memory(const DraftSettings& settings, const shard::Manifest& manifest,
                    LayerRange layers, std::uint64_t kv_tokens) {
  shard::StageMemory needed =
      shard::estimate_stage_memory(manifest, layers, settings.profile, kv_tokens);
  PACELINE_ASSIGN_OR_RETURN(const auto memory, system::machine_memory());
  if (needed.total_bytes() <= memory.available_bytes) return {};
  return fail(ErrorCode::kResourceExhausted,
              "the draft model needs {} MiB ({} weights, {} KV for {} tokens), {} MiB are free",
              needed.total_bytes() / kMiB, needed.weight_bytes / kMiB, needed.kv_bytes / kMiB,
              kv_tokens, memory.available_bytes / kMiB);
}

}  // namespace

Status check_vocabulary(const shard::Manifest& draft, const shard::Manifest& model) {
  if (draft.vocabulary_size == model.vocabulary_size) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "the draft model has a vocabulary of {} tokens, the model one of {}; expected the same",
      draft.vocabulary_size, model.vocabulary_size);
}

Result<std::unique_ptr<ModelDrafter>> load_drafter(const DraftSettings& settings,
                                                   const shard::Manifest& manifest,
                                                   const Clock& clock) {
  const LayerRange layers = manifest.all_layers();
  const DrafterOptions options = drafter_options(settings, manifest, layers);
  PACELINE_RETURN_IF_ERROR(check_memory(settings, manifest, layers,
                                        std::uint64_t{options.kv_blocks} * options.block_tokens));
  shard::VerifyOptions verification;
  verification.threads = std::max(1U, settings.threads);
  PACELINE_RETURN_IF_ERROR(shard::verify(settings.package, manifest, verification));
  engine::StageOptions stage;
  stage.package = settings.package;
  stage.layers = layers;
  stage.profile = settings.profile;
  stage.threads = settings.threads;
  stage.kv_blocks = options.kv_blocks;
  stage.logical_block_tokens = options.block_tokens;
  PACELINE_ASSIGN_OR_RETURN(auto engine, engine::load_paged_engine(stage));
  if (engine->info().vocabulary_size < manifest.vocabulary_size) {
    return fail(ErrorCode::kDataLoss, "{}: the graph gives {} logits, the manifest says {}",
                settings.package.string(), engine->info().vocabulary_size,
                manifest.vocabulary_size);
  }
  return std::make_unique<ModelDrafter>(std::move(engine), clock, options);
}

}  // namespace paceline::draft
