// What is known of a package whose files are there, but for the manifest.
#pragma once

#include "compiler/stored_weight.h"
#include "shard/manifest.h"

namespace paceline::compiler {

struct FilledPackage {
  shard::ModelFacts facts;
  StoredWeights weights = {};  ///< empty where the source was an IR already
};

}  // namespace paceline::compiler
