#include "compiler/hf_package.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/sampling_defaults.h"
#include "compiler/config_json.h"
#include "compiler/hf_text.h"
#include "compiler/ir_directory.h"
#include "model/hf_config.h"
#include "model/safetensors.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGenerationFile = "generation_config.json";
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
                    const nlohmann::json& generation, const fs::path& directory) {
  if (!config.architecture.ends_with("ForConditionalGeneration")) {
    PACELINE_ASSIGN_OR_RETURN(const auto text,
                              system::read_text_file(source / "config.json", kConfigLimit));
    PACELINE_RETURN_IF_ERROR(system::write_file_atomically(directory / "config.json", text));
  }
  if (!generation.is_object()) return {};
  nlohmann::json json = generation;
  json.merge_patch(nlohmann::json::parse(generation_config_json(config)));
  return system::write_file_atomically(directory / kGenerationFile, json.dump(2) + "\n");
}

/// The source's generation_config.json; null where it has none. The reader of the configuration has
/// seen that it is an object.
Result<nlohmann::json> read_generation(const fs::path& source) {
  if (!has_file(source / kGenerationFile)) return nlohmann::json();
  PACELINE_ASSIGN_OR_RETURN(const auto text,
                            system::read_text_file(source / kGenerationFile, kConfigLimit));
  auto json = parse_json(text, kConfigDepth, kConfigValues);
  if (!json) return fail(json.error().with_context((source / kGenerationFile).string()));
  return json;
}

Result<SamplingDefaults> sampling_of(const nlohmann::json& generation, const fs::path& source) {
  if (!generation.is_object()) return SamplingDefaults();
  auto defaults = read_sampling_defaults(generation);
  if (!defaults) return fail(defaults.error().with_context((source / kGenerationFile).string()));
  return defaults;
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
  PACELINE_ASSIGN_OR_RETURN(const auto generation, read_generation(source));
  PACELINE_ASSIGN_OR_RETURN(const auto sampling, sampling_of(generation, source));
  PACELINE_ASSIGN_OR_RETURN(const auto tensors, model::SafetensorsModel::open(source));
  PACELINE_ASSIGN_OR_RETURN(const auto text, write_hf_text(source, config.architecture, directory));
  auto& ends = config.eos_token_ids;
  if (text.eos_id && std::ranges::find(ends, *text.eos_id) == ends.end() &&
      *text.eos_id < static_cast<std::int64_t>(config.vocabulary_size)) {
    ends.push_back(*text.eos_id);
  }
  PACELINE_RETURN_IF_ERROR(keep_configs(source, config, generation, directory));
  PACELINE_ASSIGN_OR_RETURN(auto weights,
                            build_ir_directory(*tensors, config, directory, progress, options));
  return FilledPackage{{config.name, config.architecture, "safetensors", sampling},
                       std::move(weights)};
}

}  // namespace paceline::compiler
