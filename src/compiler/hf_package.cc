#include "compiler/hf_package.h"

#include <algorithm>
#include <utility>

#include "compiler/hf_text.h"
#include "compiler/ir_directory.h"
#include "model/hf_config.h"
#include "model/safetensors.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;

bool has_file(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
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
  PACELINE_ASSIGN_OR_RETURN(auto weights,
                            build_ir_directory(*tensors, config, directory, progress, options));
  return FilledPackage{{config.name, config.architecture, "safetensors"}, std::move(weights)};
}

}  // namespace paceline::compiler
