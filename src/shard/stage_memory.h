// How much memory a stage will take, before anything of it is loaded.
//
// For the paged engine on CPU. The figures behind it: packed weights take 1.07 of their bytes in
// the package, and a process with OpenVINO about 200 MiB before any weights.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/profile.h"
#include "shard/manifest.h"

namespace paceline::shard {

struct StageMemory {
  std::uint64_t weight_bytes = 0;  ///< packed
  std::uint64_t kv_bytes = 0;
  std::uint64_t process_bytes = 0;
  std::uint64_t total_bytes() const { return weight_bytes + kv_bytes + process_bytes; }
};

/// Bytes of KV cache for one token of layers `range`, the engine's scales included.
std::uint64_t paged_kv_bytes_per_token(const Manifest& manifest, LayerRange range, Profile profile);

StageMemory estimate_stage_memory(const Manifest& manifest, LayerRange range, Profile profile,
                                  std::uint64_t kv_tokens);

}  // namespace paceline::shard
