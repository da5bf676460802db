// The flag --layers FIRST:END of several commands.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/ids.h"

namespace paceline::cli {

/// "4:12" is layers 4 to 11. kInvalidArgument names the flag for anything else, also for an empty
/// range; whether the model has these layers is asked later.
Result<LayerRange> parse_layers(std::string_view text);

/// The range that `text` names, or all `layer_count` layers where it is empty. kInvalidArgument
/// where the model does not have them.
Result<LayerRange> layers_or_all(std::string_view text, std::uint32_t layer_count);

/// Adds --layers to `command`.
CLI::Option* add_layers_flag(CLI::App& command, std::string& text);

}  // namespace paceline::cli
