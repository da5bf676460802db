// From a package to a model that requests can name: its chain, tokenizer and chat template.
#pragma once

#include <memory>

#include "base/error.h"
#include "cli/chain_flags.h"
#include "obs/metrics.h"
#include "serve/served_model.h"

namespace paceline::cli {

/// As ChainSession::open. `metrics` must outlive the model.
Result<std::unique_ptr<serve::ServedModel>> load_model(const ChainFlags& flags,
                                                       obs::ModelMetrics& metrics);

}  // namespace paceline::cli
