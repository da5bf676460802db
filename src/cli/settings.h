// What a command's flags are that the command line does not give: from the environment, then from
// configuration files.
//
// Not CLI11's own way: there a file counts more than the environment, an entry that is not known
// has no line, and a variable that is wrong for one command ends all others.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/settings_file.h"

namespace paceline::cli {

/// Where a value is from; what is later counts more.
enum class Origin : std::uint8_t { kDefault, kFile, kEnvironment, kCommandLine };
std::string_view to_string(Origin origin);

struct SettingSource {
  Origin origin = Origin::kDefault;
  std::string where;  ///< "PACELINE_PORT", "FILE:LINE"; else empty
};
/// By the flag's name, without dashes before it; what is not in it is the default.
using SettingSources = std::map<std::string, SettingSource>;

/// The name by which variables, files and SettingSources have an option; empty: none of them has.
std::string setting_name(const CLI::Option& option);

/// That have been given, as they are after parsing.
std::set<std::string> given_settings(const CLI::App& command);

/// Gives `command`, before it is parsed, what `entries` (of its section) and the environment say of
/// flags that are not in `given`. A value gives way to one that counts more, also of a flag that
/// excludes its own. kInvalidArgument names the variable, or file and line.
Result<SettingSources> apply_settings(CLI::App& command, const std::set<std::string>& given,
                                      const SettingsEntries& entries);
/// The same without the environment, for sections that are no command's.
Status apply_entries(CLI::App& command, const SettingsEntries& entries);

/// kInvalidArgument where an entry is of a flag that `command` does not have.
Status check_entries(const CLI::App& command, const SettingsEntries& entries);

/// Those of one section.
SettingsEntries entries_of(const SettingsEntries& entries, const std::vector<std::string>& section);

}  // namespace paceline::cli
