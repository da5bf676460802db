#include "cli/settings.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "cli/environment.h"

namespace paceline::cli {
namespace {

bool takes_several(const CLI::Option& option) {
  return option.get_items_expected_max() > 1 ||
         option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
}

/// Of a variable: several are separated by commas.
std::vector<std::string> values_of(const CLI::Option& option, const std::string& text) {
  if (!takes_several(option)) return {text};
  std::vector<std::string> values;
  std::stringstream stream(text);
  for (std::string value; std::getline(stream, value, ',');) {
    if (!value.empty()) values.push_back(value);
  }
  return values;
}

/// As the command line would; checked here, where it is known whose value it is.
Status add(CLI::Option& option, const std::string& name, const std::vector<std::string>& values,
           const std::string& where) {
  try {
    const bool is_flag = option.get_expected_min() == 0;
    if (is_flag && values.size() != 1) {
      return fail(ErrorCode::kInvalidArgument, "{}: {}: expected true or false", where, name);
    }
    if (is_flag) option.add_result(option.get_flag_value(name, values.front()));
    if (!is_flag) option.add_result(values);
    option.run_callback();
  } catch (const CLI::Error& error) {
    return fail(ErrorCode::kInvalidArgument, "{}: {}", where, error.what());
  }
  return {};
}

CLI::Option* find_option(CLI::App& command, const std::string& name) {
  for (CLI::Option* option : command.get_options()) {
    const auto& names = option->get_lnames();
    const bool is_one = std::find(names.begin(), names.end(), name) != names.end();
    if (is_one && !setting_name(*option).empty()) return option;
  }
  return nullptr;
}

Error unknown_entry(const SettingsEntry& entry) {
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{}: {}: [{}] has no such entry; see paceline {} --help", entry.where(),
                           entry.name, entry.section_name(),
                           entry.section.front() == "model" ? "serve" : entry.section_name()));
}

/// Adds values in the order of what counts, and remembers whose they are.
class Filling {
 public:
  explicit Filling(SettingSources sources) : sources_(std::move(sources)) {}

  Status add(CLI::Option& option, const std::string& name, const std::vector<std::string>& values,
             const SettingSource& source) {
    const std::string own_name = setting_name(option);
    if (values.empty() || sources_.contains(own_name)) return {};
    const std::set<CLI::Option*> excluded = option.get_excludes();
    const bool gives_way =
        std::any_of(excluded.begin(), excluded.end(), [&](const CLI::Option* other) {
          const auto found = sources_.find(setting_name(*other));
          return found != sources_.end() && found->second.origin > source.origin;
        });
    if (gives_way) return {};
    PACELINE_RETURN_IF_ERROR(cli::add(option, name, values, source.where));
    sources_[own_name] = source;
    return {};
  }
  SettingSources take() { return std::move(sources_); }

 private:
  SettingSources sources_;
};

Status fill_from_environment(CLI::App& command, Filling& filling) {
  for (CLI::Option* option : command.get_options()) {
    const std::string name = setting_name(*option);
    if (name.empty()) continue;
    const std::string variable = environment_variable(name);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr) continue;
    PACELINE_RETURN_IF_ERROR(
        filling.add(*option, name, values_of(*option, value), {Origin::kEnvironment, variable}));
  }
  return {};
}

Status fill_from_entries(CLI::App& command, const SettingsEntries& entries, Filling& filling) {
  for (const SettingsEntry& entry : entries) {
    CLI::Option* option = find_option(command, entry.name);
    if (option == nullptr) return fail(unknown_entry(entry));
    PACELINE_RETURN_IF_ERROR(
        filling.add(*option, entry.name, entry.values, {Origin::kFile, entry.where()}));
  }
  return {};
}

}  // namespace

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kFile:
      return "file";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kCommandLine:
      return "command line";
  }
  return "unknown";
}

std::string setting_name(const CLI::Option& option) {
  if (option.get_lnames().empty()) return {};
  const std::string& name = option.get_lnames().front();
  return name == "help" || name == "config" ? "" : name;
}

std::set<std::string> given_settings(const CLI::App& command) {
  std::set<std::string> given;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0 && !setting_name(*option).empty()) given.insert(setting_name(*option));
  }
  return given;
}

Result<SettingSources> apply_settings(CLI::App& command, const std::set<std::string>& given,
                                      const SettingsEntries& entries) {
  SettingSources sources;
  for (const std::string& name : given) sources[name] = {Origin::kCommandLine, ""};
  Filling filling(std::move(sources));
  PACELINE_RETURN_IF_ERROR(fill_from_environment(command, filling));
  PACELINE_RETURN_IF_ERROR(fill_from_entries(command, entries, filling));
  return filling.take();
}

Status apply_entries(CLI::App& command, const SettingsEntries& entries) {
  Filling filling({});
  return fill_from_entries(command, entries, filling);
}

Status check_entries(const CLI::App& command, const SettingsEntries& entries) {
  for (const SettingsEntry& entry : entries) {
    const auto options = command.get_options();
    const bool is_known = std::any_of(options.begin(), options.end(), [&](const auto* option) {
      const auto& names = option->get_lnames();
      return !setting_name(*option).empty() &&
             std::find(names.begin(), names.end(), entry.name) != names.end();
    });
    if (!is_known) return fail(unknown_entry(entry));
  }
  return {};
}

SettingsEntries entries_of(const SettingsEntries& entries,
                           const std::vector<std::string>& section) {
  SettingsEntries found;
  for (const SettingsEntry& entry : entries) {
    if (entry.section == section) found.push_back(entry);
  }
  return found;
}

}  // namespace paceline::cli
