// What can be told of a chain's stages: who holds what, on which machine, and how it does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "coordinator/chain.h"
#include "coordinator/worker_pool.h"

namespace paceline::serve {

struct StageView {
  LayerRange layers;
  std::string worker;   ///< as it calls itself
  std::string address;  ///< "host:port"
  std::string isa;      ///< e.g. "avx512_core_amx"
  std::uint32_t threads = 0;
  std::string engine;
  std::uint64_t weight_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t resident_bytes = 0;      ///< of the process, which may hold several stages
  std::uint64_t machine_bytes = 0;       ///< of the machine's memory
  std::uint32_t queued_steps = 0;        ///< that wait in its process
  std::optional<Duration> round_trip{};  ///< of a ping
};

/// Pure. `workers` by address; of one that is not there only what it said when it was ready is
/// told.
std::vector<StageView> stage_views(std::span<const coordinator::StageReport> stages,
                                   const std::map<std::string, coordinator::WorkerState>& workers);

}  // namespace paceline::serve
