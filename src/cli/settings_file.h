// Configuration files: TOML, a section for each command, an entry for each flag.
//
//   [serve]
//   port = 9000
//   allowed-host = ["pc.lan", "pc"]
//   [model.small]
//   package = "/models/small"
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace paceline::cli {

struct SettingsEntry {
  std::vector<std::string> section;  ///< {"serve"}, {"batch", "submit"}, {"model", "small"}
  std::string name;                  ///< of a flag, without dashes before it
  std::vector<std::string> values;   ///< as they would be on a command line
  std::string file;
  std::uint32_t line = 0;

  std::string where() const;         ///< "FILE:LINE"
  std::string section_name() const;  ///< "batch.submit"
};

/// Of two entries for the same, the first counts.
using SettingsEntries = std::vector<SettingsEntry>;

/// kInvalidArgument names file and line.
Result<SettingsEntries> parse_settings(std::string_view text, const std::string& file);

/// The user's, $XDG_CONFIG_HOME/paceline/config.toml or in ~/.config, then the system's in /etc.
std::vector<std::filesystem::path> default_settings_files();

struct SettingsFiles {
  std::vector<std::string> read;  ///< those that are there
  SettingsEntries entries;
};

/// Of `given`, or of the default ones where it is empty; "none": of none. A default file need not
/// be there; one that cannot be read is an error in any case.
Result<SettingsFiles> read_settings(const std::string& given);

}  // namespace paceline::cli
