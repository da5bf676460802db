// Flags that may also come from the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace paceline::cli {

/// "--max-waiting" is also read from PACELINE_MAX_WAITING, and so each of the command's flags; the
/// command line counts more. Call once all are added.
void name_environment_variables(CLI::App& command);

/// The variable of a flag by its long name, without dashes before it.
std::string environment_variable(const std::string& flag);

}  // namespace paceline::cli
