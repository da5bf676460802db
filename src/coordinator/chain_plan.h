// Who holds what, for a chain of given workers: layers divided by the bytes that a stage reads, as
// much context as their memory allows, and KV for as many sequences as it is meant to take.
//
// Not the planner of measured profiles; that comes as its own folder's concern.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/engine_kind.h"
#include "base/error.h"
#include "base/link_precision.h"
#include "coordinator/chain.h"
#include "shard/manifest.h"
#include "wire/messages.h"

namespace paceline::coordinator {

struct ChainSettings {
  std::vector<std::string> workers;  ///< one per stage, in order; one may stand there repeatedly
  std::vector<double> weights;       ///< layers per worker, in proportion; empty: by bytes
  /// More than 0: `home`, a worker on this machine, has so many layers before and behind those that
  /// `workers` share, and with them the embedding, the head and the sampling.
  std::uint32_t private_layers = 0;
  std::string home;
  Profile profile = Profile::kFast;
  EngineKind engine = EngineKind::kPaged;
  LinkPrecision link_precision = LinkPrecision::kNative;  ///< kInt8 in profile fast only
  std::uint32_t threads = 0;
  std::uint32_t context_tokens = 0;  ///< 0: the model's, or what fits
  /// For the KV cache on each machine; 0: kKvMemoryBytes, at most half of what the weights leave,
  /// but one context at least.
  std::uint64_t kv_memory_bytes = 0;
};
inline constexpr std::uint64_t kKvMemoryBytes = 1ULL << 30;

/// `welcomes` by address, of all workers of the settings. Workers with the same host share its
/// memory. kResourceExhausted, with the numbers, where the model or the context does not fit;
/// kInvalidArgument for a division that cannot be made, with the numbers; kNotFound where a worker
/// has no such package.
Result<ChainPlan> plan_chain(const shard::Manifest& manifest,
                             const std::map<std::string, wire::Welcome>& welcomes,
                             const ChainSettings& settings);

}  // namespace paceline::coordinator
