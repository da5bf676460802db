#include "compiler/hf_package.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "compiler/config_json.h"
#include "compiler/hf_text.h"
#include "compiler/ir_directory.h"
#include "model/hf_config.h"
#include "model/safetensors.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kConfigLimit = 1U << 20;
constexpr std::size_t kConfigDepth = 16;
constexpr std::size_t kConfigValues = 1U << 16;

bool has_file(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

/// The source's config.json as it is, which says more than the graph needs; of a model that sees,
/// whose text model alone is packed, one is made of the configuration. The generation_config.json
/// keeps its defaults of sampling and gets the ids that end a text.
Status keep_configs(const fs::path& source, const model::DecoderConfig& config,
                    const fs::path& directory) {
  if (!config.architecture.ends_with("ForConditionalGeneration")) {
    PACELINE_ASSIGN_OR_RETURN(const auto text,
                              system::read_text_file(source / "config.json", kConfigLimit));
    PACELINE_RETURN_IF_ERROR(system::write_file_atomically(directory / "config.json", text));
  }
  constexpr const char* kGeneration = "generation_config.json";
  if (!has_file(source / kGeneration)) return {};
  PACELINE_ASSIGN_OR_RETURN(const auto text,
                            system::read_text_file(source / kGeneration, kConfigLimit));
  PACELINE_ASSIGN_OR_RETURN(auto json, parse_json(text, kConfigDepth, kConfigValues));
  json.merge_patch(nlohmann::json::parse(generation_config_json(config)));
  return system::write_file_atomically(directory / kGeneration, json.dump(2) + "\n");
}

}  // namespace

bool is_hf_directory(const fs::path& source) {
  if (has_file(source / shard::kGraphFile)) return false;
  return has_file(source / "model.safetensors") ||
         has_file(source / "model.safetensors.index.json");
}

Result<FilledPackage> fill_from_hf(const fs::path& source, const fs::path& directory,
                                   Progress& progress, const WriteOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(auto config, model::read_hf_config(source));
  PACELINE_ASSIGN_OR_RETURN(const auto tensors, model::SafetensorsModel::open(source));
  PACELINE_ASSIGN_OR_RETURN(const auto text, write_hf_text(source, config.architecture, directory));
  auto& ends = config.eos_token_ids;
  if (text.eos_id && std::ranges::find(ends, *text.eos_id) == ends.end() &&
      *text.eos_id < static_cast<std::int64_t>(config.vocabulary_size)) {
    ends.push_back(*text.eos_id);
  }
  PACELINE_RETURN_IF_ERROR(keep_configs(source, config, directory));
  PACELINE_ASSIGN_OR_RETURN(auto weights,
                            build_ir_directory(*tensors, config, directory, progress, options));
  return FilledPackage{{config.name, config.architecture, "safetensors"}, std::move(weights)};
}

}  // namespace paceline::compiler
