// What is counted of a step of the chain.
#pragma once

#include <cstdint>
#include <span>

#include "coordinator/batch_generator.h"
#include "obs/metrics.h"

namespace paceline::serve {

/// `hop_row_bytes` as Chain has them: one less than there are stages. Times of stages that are not
/// there, which a worker may send, are left out.
void count_step(obs::ModelMetrics& metrics, const coordinator::StepFacts& step,
                std::span<const std::uint64_t> hop_row_bytes);

}  // namespace paceline::serve
