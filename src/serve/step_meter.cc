#include "serve/step_meter.h"

#include <chrono>
#include <string>

namespace paceline::serve {

void count_step(obs::ModelMetrics& metrics, const coordinator::StepFacts& step,
                std::span<const std::uint64_t> hop_row_bytes) {
  const auto phase = step.has_prompt ? obs::StepPhase::kPrefill : obs::StepPhase::kDecode;
  for (const wire::StageTime& time : step.times) {
    const std::uint32_t stage = time.stage.value();
    if (stage > hop_row_bytes.size()) continue;
    metrics.observe_stage(stage, phase, std::chrono::microseconds(time.compute_us));
    metrics.observe_stage_queue(stage, std::chrono::microseconds(time.queue_us));
  }
  if (step.rows == 0) return;
  for (std::size_t hop = 0; hop < hop_row_bytes.size(); ++hop) {
    metrics.add_hop_bytes(std::to_string(hop), std::to_string(hop + 1),
                          hop_row_bytes[hop] * step.rows);
  }
}

}  // namespace paceline::serve
