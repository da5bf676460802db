#include "shard/stage_memory.h"

namespace paceline::shard {
namespace {

constexpr std::uint64_t kProcessBytes = 200ULL << 20;
/// Scale and zero point (f32 each) of a head's row in a u8 cache.
constexpr std::uint64_t kRowScaleBytes = 8;

}  // namespace

std::uint64_t paged_kv_bytes_per_token(const Manifest& manifest, LayerRange range,
                                       Profile profile) {
  if (profile == Profile::kExact) return manifest.kv_bytes_per_token(range, sizeof(float));
  std::uint64_t bytes = manifest.kv_bytes_per_token(range, 1);
  for (std::uint32_t layer = range.begin; layer < range.end; ++layer) {
    bytes += 2 * kRowScaleBytes * manifest.kv[layer].key_heads;
  }
  return bytes;
}

StageMemory estimate_stage_memory(const Manifest& manifest, LayerRange range, Profile profile,
                                  std::uint64_t kv_tokens) {
  StageMemory memory;
  memory.weight_bytes = manifest.bytes_of(range) / 100 * 107;
  memory.kv_bytes = paged_kv_bytes_per_token(manifest, range, profile) * kv_tokens;
  memory.process_bytes = kProcessBytes;
  return memory;
}

}  // namespace paceline::shard
