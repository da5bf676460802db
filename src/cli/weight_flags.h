// The flags of compile that choose how weights are stored.
#pragma once

#include <CLI/App.hpp>

#include <memory>
#include <string>

#include "base/error.h"
#include "compiler/weight_options.h"

namespace paceline::cli {

struct WeightFlags {
  std::string weights;  ///< empty: what the source suggests
  std::string embedding;
  std::string head;
  std::string int8_layers;
  std::uint64_t group = 128;
  bool search = true;
};

void add_weight_flags(CLI::App& command, const std::shared_ptr<WeightFlags>& flags);

/// kInvalidArgument names the flag.
Result<compiler::WeightOptions> weight_options(const WeightFlags& flags);

}  // namespace paceline::cli
