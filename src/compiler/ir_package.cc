#include "compiler/ir_package.h"

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/hf_package.h"
#include "system/files.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMaxConfigBytes = 16ULL << 20;

bool has_file(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

bool belongs_to_package(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::string extension = file.extension().string();
  if (name.starts_with(".") || name == shard::kManifestFile) return false;
  if (extension == ".xml" || extension == ".bin") return name.starts_with("openvino_");
  return extension == ".json" || extension == ".jinja" || extension == ".txt" ||
         extension == ".model";
}

/// The standard library's copy calls a full disk an input/output error.
bool lacks_space(const fs::path& from, const fs::path& to) {
  std::error_code code;
  const auto bytes = fs::file_size(from, code);
  if (code) return false;
  const auto space = fs::space(to.parent_path(), code);
  return !code && space.available < bytes;
}

Status link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code code;
  const fs::path real = fs::canonical(from, code);  // model caches are full of symbolic links
  if (!code) fs::create_hard_link(real, to, code);
  if (code) fs::copy_file(from, to, code);
  if (code && lacks_space(from, to)) code = make_error_code(std::errc::no_space_on_device);
  if (code) {
    return fail(code == std::errc::no_space_on_device ? ErrorCode::kResourceExhausted
                                                      : ErrorCode::kInternal,
                "{}: cannot be copied: {}", from.string(), code.message());
  }
  return {};
}

}  // namespace

Result<shard::ModelFacts> ir_facts(const fs::path& source) {
  for (const char* name : {shard::kGraphFile, shard::kWeightsFile}) {
    if (has_file(source / name)) continue;
    if (is_hf_directory(source)) {
      return fail(ErrorCode::kFailedPrecondition,
                  "{}: holds safetensors and no OpenVINO IR; compile it into another directory",
                  source.string());
    }
    return fail(
        ErrorCode::kNotFound,
        "{}: has no {}; expected a GGUF file, or a directory with safetensors or an OpenVINO "
        "decoder IR",
        source.string(), name);
  }
  shard::ModelFacts facts;
  facts.source = "openvino";
  facts.name = fs::absolute(source).lexically_normal().filename().string();
  if (facts.name.empty()) facts.name = fs::absolute(source).parent_path().filename().string();
  facts.architecture = "unknown";
  if (!has_file(source / "config.json")) return facts;
  PACELINE_ASSIGN_OR_RETURN(const auto text,
                            system::read_text_file(source / "config.json", kMaxConfigBytes));
  const auto config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected a JSON object",
                (source / "config.json").string());
  }
  if (const auto type = config.find("model_type"); type != config.end() && type->is_string()) {
    facts.architecture = type->get<std::string>();
  }
  return facts;
}

Result<shard::ModelFacts> fill_from_ir(const fs::path& source, const fs::path& directory,
                                       Progress& progress) {
  PACELINE_ASSIGN_OR_RETURN(auto facts, ir_facts(source));
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(source, code)) {
    // A name whose file is gone (a symbolic link in a pruned cache) is no file.
    if (!has_file(entry.path()) || !belongs_to_package(entry.path())) continue;
    if (!progress.update("files", 0, 1)) return fail(ErrorCode::kCancelled, "interrupted");
    PACELINE_RETURN_IF_ERROR(link_or_copy(entry.path(), directory / entry.path().filename()));
  }
  if (code) {
    return fail(ErrorCode::kPermissionDenied, "{}: cannot be listed: {}", source.string(),
                code.message());
  }
  return facts;
}

}  // namespace paceline::compiler
