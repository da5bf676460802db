// The sections [model.NAME] of configuration files: models of `paceline serve` with chains of their
// own.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/chain_flags.h"
#include "cli/settings_file.h"

namespace paceline::cli {

struct ModelSection {
  std::string name;
  std::string package;  ///< empty: the command line names it
  bool load = true;     ///< at the start
  SettingsEntries entries;
};

/// In the files' order of names. kInvalidArgument names file and line.
Result<std::vector<ModelSection>> model_sections(const SettingsEntries& entries);

/// The chain of a model: `base`, and what the section of its name says. --stages of a section stand
/// for --workers of the base.
Result<ChainFlags> chain_of(const std::vector<ModelSection>& sections, const std::string& name,
                            const ChainFlags& base);

}  // namespace paceline::cli
