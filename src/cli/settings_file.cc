#include "cli/settings_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <utility>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "system/files.h"
#include "system/user_directories.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFileBytes = 1ULL << 20;
constexpr std::size_t kMaxEntries = 4096;
/// {"batch", "submit"} is the deepest.
constexpr std::size_t kMaxSections = 2;

/// Collects what lies in tables; keeps the first problem.
class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Status read(const toml::table& table, const std::vector<std::string>& section) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (const toml::table* inner = node.as_table()) {
        PACELINE_RETURN_IF_ERROR(read_section(*inner, section, name));
      } else {
        PACELINE_RETURN_IF_ERROR(read_entry(node, section, name));
      }
    }
    return {};
  }
  SettingsEntries take() { return std::move(entries_); }

 private:
  Status read_section(const toml::table& table, std::vector<std::string> section,
                      const std::string& name) {
    section.push_back(name);
    if (section.size() > kMaxSections) {
      return refuse(table, fmt::format("[{}]", fmt::join(section, ".")),
                    "expected [COMMAND], [COMMAND.VERB] or [model.NAME]");
    }
    return read(table, section);
  }

  Status read_entry(const toml::node& node, const std::vector<std::string>& section,
                    const std::string& name) {
    if (section.empty()) return refuse(node, name, "expected it in a section, such as [serve]");
    if (entries_.size() >= kMaxEntries) {
      return refuse(node, name, fmt::format("more than {} entries", kMaxEntries));
    }
    SettingsEntry entry = {section, name, {}, file_, node.source().begin.line};
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& item : *list) {
        PACELINE_RETURN_IF_ERROR(add_value(item, name, entry.values));
      }
    } else {
      PACELINE_RETURN_IF_ERROR(add_value(node, name, entry.values));
    }
    entries_.push_back(std::move(entry));
    return {};
  }

  Status add_value(const toml::node& node, const std::string& name,
                   std::vector<std::string>& values) const {
    if (const auto* text = node.as_string()) {
      values.push_back(text->get());
    } else if (const auto* number = node.as_integer()) {
      values.push_back(fmt::format("{}", number->get()));
    } else if (const auto* real = node.as_floating_point()) {
      values.push_back(fmt::format("{}", real->get()));
    } else if (const auto* flag = node.as_boolean()) {
      values.push_back(flag->get() ? "true" : "false");
    } else {
      return refuse(node, name, "expected a string, a number, true or false, or an array of them");
    }
    return {};
  }

  Status refuse(const toml::node& node, const std::string& name, std::string_view why) const {
    return fail(ErrorCode::kInvalidArgument, "{}:{}: {}: {}", file_, node.source().begin.line, name,
                why);
  }

  const std::string& file_;
  SettingsEntries entries_;
};

}  // namespace

std::string SettingsEntry::where() const { return fmt::format("{}:{}", file, line); }

std::string SettingsEntry::section_name() const {
  return fmt::format("{}", fmt::join(section, "."));
}

Result<SettingsEntries> parse_settings(std::string_view text, const std::string& file) {
  const toml::parse_result parsed = toml::parse(text, std::string_view(file));
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return fail(ErrorCode::kInvalidArgument, "{}:{}: {}", file, error.source().begin.line,
                error.description());
  }
  Reader reader(file);
  PACELINE_RETURN_IF_ERROR(reader.read(parsed.table(), {}));
  return reader.take();
}

std::vector<fs::path> default_settings_files() {
  std::vector<fs::path> files;
  const fs::path config = system::user_directory("XDG_CONFIG_HOME", ".config");
  if (!config.empty()) files.push_back(config / "paceline/config.toml");
  files.emplace_back("/etc/paceline/config.toml");
  return files;
}

Result<SettingsFiles> read_settings(const std::string& given) {
  SettingsFiles settings;
  if (given == "none") return settings;
  std::vector<fs::path> files = {given};
  if (given.empty()) files = default_settings_files();
  for (const fs::path& file : files) {
    const auto text = system::read_text_file(file, kMaxFileBytes);
    const bool is_there = text || text.error().code() != ErrorCode::kNotFound;
    if (!is_there && given.empty()) continue;
    if (!text) return fail(text.error().with_context("the configuration file"));
    PACELINE_ASSIGN_OR_RETURN(auto entries, parse_settings(*text, file.string()));
    settings.read.push_back(file.string());
    for (SettingsEntry& entry : entries) settings.entries.push_back(std::move(entry));
  }
  return settings;
}

}  // namespace paceline::cli
