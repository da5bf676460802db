// paceline config: what a command's flags are, and where each comes from.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/environment.h"

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

struct ConfigRow {
  std::string name;
  std::string variable;
  std::vector<std::string> values;
  SettingSource source;
};

std::vector<std::string> default_of(const CLI::Option& option) {
  const std::string text = option.get_default_str();
  if (text.empty() || text == "[]" || text == "\"\"") return {};
  return {text};
}

std::vector<ConfigRow> rows_of(const Reading& reading) {
  std::vector<ConfigRow> rows;
  for (const CLI::Option* option : std::as_const(*reading.leaf.command).get_options()) {
    const std::string name = setting_name(*option);
    if (name.empty()) continue;
    ConfigRow row = {name, environment_variable(name), option->results(), {}};
    const auto source = reading.sources.find(name);
    if (source != reading.sources.end()) row.source = source->second;
    if (option->count() == 0) row.values = default_of(*option);
    rows.push_back(std::move(row));
  }
  // Who asks servers has a key, of which nothing but that it is there is anyone's business.
  const bool asks_servers = reading.leaf.command->get_option_no_throw("--url") != nullptr;
  if (asks_servers && std::getenv("PACELINE_API_KEY") != nullptr) {
    rows.push_back({"api-key",
                    "PACELINE_API_KEY",
                    {"(set, not shown)"},
                    {Origin::kEnvironment, "PACELINE_API_KEY"}});
  }
  if (reading.leaf.names.front() != "serve") return rows;
  for (const SettingsEntry& entry : reading.files.entries) {
    if (entry.section.front() != "model") continue;
    rows.push_back({entry.section_name() + "." + entry.name,
                    "",
                    entry.values,
                    {Origin::kFile, entry.where()}});
  }
  return rows;
}

ordered_json to_json(const Reading& reading, const std::vector<ConfigRow>& rows) {
  ordered_json settings = ordered_json::array();
  for (const ConfigRow& row : rows) {
    ordered_json value;
    if (row.values.size() == 1) value = row.values.front();
    if (row.values.size() > 1) value = row.values;
    settings.push_back({{"name", row.name},
                        {"value", std::move(value)},
                        {"origin", to_string(row.source.origin)},
                        {"where", row.source.where},
                        {"variable", row.variable}});
  }
  return {{"command", fmt::format("{}", fmt::join(reading.leaf.names, " "))},
          {"files", reading.files.read},
          {"settings", std::move(settings)}};
}

void show(const Reading& reading, const std::vector<ConfigRow>& rows) {
  const auto text_of = [](const ConfigRow& row) {
    return row.values.empty() ? "-" : fmt::format("{}", fmt::join(row.values, ", "));
  };
  std::size_t names = 0;
  std::size_t values = 0;
  for (const ConfigRow& row : rows) {
    names = std::max(names, row.name.size());
    values = std::max(values, std::min<std::size_t>(text_of(row).size(), 40));
  }
  fmt::print(
      "# {}; files: {}\n", fmt::join(reading.leaf.names, " "),
      reading.files.read.empty() ? "none" : fmt::format("{}", fmt::join(reading.files.read, ", ")));
  for (const ConfigRow& row : rows) {
    const bool has_place = !row.source.where.empty();
    fmt::print("{:<{}}  {:<{}}  {}\n", row.name, names, text_of(row), values,
               has_place ? row.source.where : to_string(row.source.origin));
  }
}

/// What is missing stays missing.
Status read_values(Reading& reading) {
  for (CLI::Option* option : reading.leaf.command->get_options()) option->required(false);
  return read_flags(reading);
}

Status show_config(std::vector<std::string> arguments, const std::string& file, bool as_json) {
  if (arguments.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "expected a command, with or without flags, as in paceline config serve");
  }
  if (!file.empty()) arguments.push_back("--config=" + file);
  PACELINE_ASSIGN_OR_RETURN(const auto reading, read_command_line(arguments));
  if (!reading) return {};
  PACELINE_RETURN_IF_ERROR(read_values(*reading));
  const auto rows = rows_of(*reading);
  if (as_json) {
    fmt::print("{}\n",
               to_json(*reading, rows).dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    show(*reading, rows);
  }
  return {};
}

}  // namespace

void add_config_command(CLI::App& app, Status& done, const std::string& file) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("config", "Show a command's flags as they are, and where each comes from");
  command->add_flag("--json", *as_json, "As JSON; before the command's name");
  command->prefix_command();
  command->footer("paceline config serve --port 9000 shows what serve --port 9000 would use.");
  command->callback([command, as_json, &file, &done] {
    done = show_config(command->remaining(), file, *as_json);
  });
}

}  // namespace paceline::cli
