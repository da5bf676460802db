// A package as a draft model: checked, loaded, running.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/profile.h"
#include "draft/model_drafter.h"
#include "shard/manifest.h"

namespace paceline::draft {

struct DraftSettings {
  std::filesystem::path package;
  Profile profile = Profile::kFast;
  std::uint32_t threads = 1;                     ///< of its device; 0: the device's choice
  std::uint32_t context_tokens = 0;              ///< that the chain may have at most; 0: not known
  std::uint32_t most_lines = 64;                 ///< that the chain computes at a time
  std::uint64_t kv_memory_bytes = 512ULL << 20;  ///< one block of each line fits, whatever this is
};

/// Whether the models agree on how many tokens there are; reads no weights. kInvalidArgument names
/// both numbers.
Status check_vocabulary(const shard::Manifest& draft, const shard::Manifest& model);

/// Loads all layers into this process. Errors: those of verifying and loading the package;
/// kResourceExhausted where memory is short, with the numbers.
Result<std::unique_ptr<ModelDrafter>> load_drafter(const DraftSettings& settings,
                                                   const shard::Manifest& manifest,
                                                   const Clock& clock);

}  // namespace paceline::draft
