#include "compiler/ir_package.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/bin_file.h"
#include "compiler/hf_package.h"
#include "system/files.h"
#include "system/input_file.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMaxConfigBytes = 16ULL << 20;
constexpr std::uint64_t kPieceBytes = 1ULL << 20;

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

tl::unexpected<Error> interrupted() { return fail(ErrorCode::kCancelled, "interrupted"); }

Status link_or_copy(const fs::path& from, const fs::path& to, Progress& progress) {
  std::error_code code;
  const fs::path real = fs::canonical(from, code);  // model caches are full of symbolic links
  if (!code) fs::create_hard_link(real, to, code);
  return code ? copy_file(from, to, progress) : Status();
}

}  // namespace

Status copy_file(const fs::path& from, const fs::path& to, Progress& progress) {
  PACELINE_ASSIGN_OR_RETURN(const auto source, system::InputFile::open(from));
  PACELINE_ASSIGN_OR_RETURN(auto target, BinFile::create(to));
  target.reserve(source.size());
  std::vector<std::byte> buffer;
  for (std::uint64_t done = 0; done < source.size(); done += buffer.size()) {
    buffer.resize(static_cast<std::size_t>(std::min(source.size() - done, kPieceBytes)));
    PACELINE_RETURN_IF_ERROR(source.read(done, buffer));
    PACELINE_RETURN_IF_ERROR(target.write(done, buffer));
    if (!progress.update("files", done + buffer.size(), source.size())) return interrupted();
  }
  return {};
}

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
    if (!progress.update("files", 0, 1)) return interrupted();
    PACELINE_RETURN_IF_ERROR(
        link_or_copy(entry.path(), directory / entry.path().filename(), progress));
  }
  if (code) {
    return fail(ErrorCode::kPermissionDenied, "{}: cannot be listed: {}", source.string(),
                code.message());
  }
  return facts;
}

}  // namespace paceline::compiler
