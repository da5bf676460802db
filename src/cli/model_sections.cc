#include "cli/model_sections.h"

#include <algorithm>
#include <utility>

#include "api/model_request.h"
#include "cli/settings.h"

namespace paceline::cli {
namespace {

/// What a section says; must stay where it is while the App reads.
struct SectionFlags {
  ChainFlags chain;
  ModelSection section;

  void add_to(CLI::App& command) {
    chain.add_chain_to(command);
    command.add_option("--max-waiting", chain.max_waiting, "")->check(CLI::Range(1U, 65536U));
    command.add_option("--package", section.package, "The package directory");
    command.add_option("--load", section.load, "false: listed, and loaded when it is told to");
  }
};

Status read_section(SectionFlags& flags, const SettingsEntries& entries) {
  CLI::App command;
  flags.add_to(command);
  PACELINE_RETURN_IF_ERROR(apply_entries(command, entries));
  const CLI::Option* stages = command.get_option("--stages");
  if (stages->count() == 0) return {};
  if (command.get_option("--workers")->count() > 0) {
    return fail(ErrorCode::kInvalidArgument, "{}: stages excludes workers",
                entries.front().where());
  }
  flags.chain.workers.clear();
  return {};
}

}  // namespace

Result<std::vector<ModelSection>> model_sections(const SettingsEntries& entries) {
  std::vector<ModelSection> sections;
  for (const SettingsEntry& entry : entries) {
    if (entry.section.front() != "model") continue;
    if (entry.section.size() != 2 || !api::is_model_name(entry.section[1])) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: {}: expected it in a section [model.NAME] with a name of at most 128 bytes "
                  "without quotes",
                  entry.where(), entry.name);
    }
    const auto same = [&entry](const ModelSection& known) {
      return known.name == entry.section[1];
    };
    auto found = std::find_if(sections.begin(), sections.end(), same);
    if (found == sections.end()) {
      sections.push_back({entry.section[1], "", true, {}});
      found = sections.end() - 1;
    }
    found->entries.push_back(entry);
  }
  for (ModelSection& section : sections) {
    SectionFlags flags;
    PACELINE_RETURN_IF_ERROR(read_section(flags, section.entries));
    section.package = flags.section.package;
    section.load = flags.section.load;
  }
  return sections;
}

Result<ChainFlags> chain_of(const std::vector<ModelSection>& sections, const std::string& name,
                            const ChainFlags& base) {
  const auto found =
      std::find_if(sections.begin(), sections.end(),
                   [&name](const ModelSection& section) { return section.name == name; });
  if (found == sections.end()) return base;
  SectionFlags flags;
  flags.chain = base;
  PACELINE_RETURN_IF_ERROR(read_section(flags, found->entries));
  return flags.chain;
}

}  // namespace paceline::cli
