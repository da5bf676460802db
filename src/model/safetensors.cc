#include "model/safetensors.h"

#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "model/foreign_text.h"
#include "model/safetensors_header.h"
#include "system/files.h"

namespace paceline::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::uint64_t kMaxIndexBytes = 64U << 20;
constexpr std::size_t kMaxIndexDepth = 8;
constexpr std::size_t kMaxIndexValues = 2'000'000;
constexpr std::size_t kMaxFileNameBytes = 255;

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxFileNameBytes || name.front() == '.') return false;
  for (const char character : name) {
    const auto byte = static_cast<unsigned char>(character);
    if (character == '/' || character == '\\' || byte < 0x20 || byte == 0x7f) return false;
  }
  return true;
}

Result<SafetensorsHeader> read_header(const system::InputFile& file) {
  std::uint64_t length = 0;
  if (file.size() < kSafetensorsPrefixBytes) {
    return fail(ErrorCode::kDataLoss, "header: is missing, the file has {} bytes", file.size());
  }
  PACELINE_RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(&length, 1))));
  PACELINE_ASSIGN_OR_RETURN(length, safetensors_header_bytes(length, file.size()));
  std::string text(length, '\0');  // at most the file's bytes, and the format's limit
  PACELINE_RETURN_IF_ERROR(
      file.read(kSafetensorsPrefixBytes, std::as_writable_bytes(std::span(text))));
  return parse_safetensors_header(text, file.size());
}

}  // namespace

Result<SafetensorsIndex> parse_safetensors_index(std::string_view text) {
  PACELINE_ASSIGN_OR_RETURN(const auto document, parse_json(text, kMaxIndexDepth, kMaxIndexValues));
  const auto map = document.is_object() ? document.find("weight_map") : document.end();
  if (map == document.end() || !map->is_object() || map->empty()) {
    return fail(ErrorCode::kDataLoss,
                "field \"weight_map\": is missing or empty, expected an object of file names");
  }
  SafetensorsIndex index;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
      return fail(ErrorCode::kDataLoss,
                  "field \"weight_map\": tensor {}: is in {}, expected the plain name of a file",
                  in_quotes(tensor), shown(file));
    }
    index.parts.emplace(tensor, file.get<std::string>());
  }
  return index;
}

Result<std::unique_ptr<SafetensorsModel>> SafetensorsModel::open(const fs::path& directory) {
  std::unique_ptr<SafetensorsModel> model(new SafetensorsModel(directory.string()));
  std::error_code ignored;
  if (fs::exists(directory / kSingleFile, ignored)) {
    PACELINE_RETURN_IF_ERROR(model->add_part(directory / kSingleFile));
    PACELINE_RETURN_IF_ERROR(model->make_index());
    return model;
  }
  if (!fs::exists(directory / kIndexFile, ignored)) {
    return fail(ErrorCode::kNotFound, "{}: has no {}, expected it or {}", directory.string(),
                kSingleFile, kIndexFile);
  }
  PACELINE_RETURN_IF_ERROR(model->add_indexed_parts(directory));
  return model;
}

Status SafetensorsModel::add_part(const fs::path& path) {
  PACELINE_ASSIGN_OR_RETURN(auto file, system::InputFile::open(path));
  auto header = read_header(file);
  if (!header) return fail(header.error().with_context(path.string()));
  for (std::size_t i = 0; i < header->tensors.size(); ++i) {
    places_.push_back({parts_.size(), header->offsets[i]});
    tensors_.push_back(std::move(header->tensors[i]));
  }
  parts_.push_back(std::move(file));
  return {};
}

Status SafetensorsModel::make_index() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto [before, added] = index_.emplace(tensors_[i].name, i);
    if (added) continue;
    return fail(ErrorCode::kDataLoss, "{}: tensor {}: is in {} too, expected once",
                parts_[places_[i].part].path().string(), in_quotes(tensors_[i].name),
                parts_[places_[before->second].part].path().filename().string());
  }
  return {};
}

Status SafetensorsModel::add_indexed_parts(const fs::path& directory) {
  const fs::path path = directory / kIndexFile;
  PACELINE_ASSIGN_OR_RETURN(const auto text, system::read_text_file(path, kMaxIndexBytes));
  const auto index = parse_safetensors_index(text);
  if (!index) return fail(index.error().with_context(path.string()));
  std::set<std::string> files;
  for (const auto& [tensor, file] : index->parts) files.insert(file);
  for (const std::string& file : files) {
    if (auto added = add_part(directory / file); !added) {
      return fail(added.error().with_context(fmt::format("{}: names a part", kIndexFile)));
    }
  }
  PACELINE_RETURN_IF_ERROR(make_index());
  for (const auto& [tensor, file] : index->parts) {
    const auto found = index_.find(tensor);
    if (found != index_.end() &&
        parts_[places_[found->second].part].path().filename() == fs::path(file)) {
      continue;
    }
    return fail(ErrorCode::kDataLoss, "{}: tensor {}: is not in {}, where the index has it",
                path.string(), in_quotes(tensor), file);
  }
  return {};
}

Status SafetensorsModel::read(const TensorInfo& tensor, std::uint64_t offset,
                              std::span<std::byte> into) const {
  const auto index = static_cast<std::size_t>(&tensor - tensors_.data());
  PACELINE_CHECK(index < tensors_.size());
  PACELINE_CHECK(offset <= tensor.size_bytes && into.size() <= tensor.size_bytes - offset);
  return parts_[places_[index].part].read(places_[index].offset + offset, into);
}

Result<const TensorInfo*> SafetensorsModel::find(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    return fail(ErrorCode::kNotFound, "{}: tensor {}: is missing", name_, in_quotes(name));
  }
  return &tensors_[found->second];
}

}  // namespace paceline::model
