// The manifest's two directions: foreign JSON to Manifest, and Manifest to JSON.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "shard/json_field.h"
#include "shard/manifest.h"

namespace paceline::shard {
namespace {

constexpr std::size_t kMaxDepth = 8;
constexpr std::size_t kMaxValues = 1'000'000;
constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::size_t kMaxNameBytes = 255;

Result<std::uint32_t> u32_member(const JsonField& object, std::string_view name, std::uint32_t min,
                                 std::uint32_t max = UINT32_MAX) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member(name));
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t value, field.integer(min, max));
  return static_cast<std::uint32_t>(value);
}

Result<std::uint64_t> u64_member(const JsonField& object, std::string_view name, std::uint64_t min,
                                 std::uint64_t max) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member(name));
  return field.integer(min, max);
}

Result<std::string> text_member(const JsonField& object, std::string_view name) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member(name));
  return field.text(kMaxTextBytes);
}

Result<Sha256Digest> sha256_member(const JsonField& object) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member("sha256"));
  if (field.json().is_string()) {
    const auto digest = sha256_from_hex(field.json().get_ref<const std::string&>());
    if (digest) return *digest;
  }
  return field.expected("64 lower-case hexadecimal digits");
}

Status check_version(const JsonField& root) {
  PACELINE_ASSIGN_OR_RETURN(const std::uint32_t version, u32_member(root, "format_version", 1));
  if (version <= kFormatVersion) return {};
  return fail(ErrorCode::kFailedPrecondition,
              "format_version: the package has version {}, this paceline reads up to {}; update "
              "paceline",
              version, kFormatVersion);
}

Status read_kv(const JsonField& field, Manifest* manifest) {
  PACELINE_ASSIGN_OR_RETURN(const std::size_t count,
                            field.array_size(manifest->layers, manifest->layers));
  manifest->kv.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const JsonField item = field.item(i);
    LayerKv& kv = manifest->kv[i];
    PACELINE_ASSIGN_OR_RETURN(kv.key_heads, u32_member(item, "key_heads", 1, kMaxKvDimension));
    PACELINE_ASSIGN_OR_RETURN(kv.key_head_size,
                              u32_member(item, "key_head_size", 1, kMaxKvDimension));
    PACELINE_ASSIGN_OR_RETURN(kv.value_head_size,
                              u32_member(item, "value_head_size", 1, kMaxKvDimension));
  }
  return {};
}

Status read_files(const JsonField& field, Manifest* manifest) {
  if (!field.json().is_object()) return field.expected("an object");
  for (const auto& [name, ignored] : field.json().items()) {
    if (!is_package_file_name(name)) {
      return fail(ErrorCode::kInvalidArgument, "{}: expected plain file names, got {}",
                  field.path(),
                  nlohmann::json(name.substr(0, kMaxNameBytes))
                      .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    }
    PACELINE_ASSIGN_OR_RETURN(const auto entry, field.member(name));
    FileEntry& file = manifest->files[name];
    PACELINE_ASSIGN_OR_RETURN(file.bytes, u64_member(entry, "bytes", 0, kMaxFileBytes));
    PACELINE_ASSIGN_OR_RETURN(file.sha256, sha256_member(entry));
  }
  PACELINE_RETURN_IF_ERROR(field.member(kGraphFile));
  return {};
}

Result<LayerRange> read_layer_pair(const JsonField& field, std::uint32_t layers) {
  PACELINE_RETURN_IF_ERROR(field.array_size(2, 2));
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t begin, field.item(0).integer(0, layers - 1));
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t end, field.item(1).integer(begin + 1, layers));
  return LayerRange{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

Result<Parts> read_parts(const JsonField& field, std::uint32_t layers) {
  PACELINE_ASSIGN_OR_RETURN(const std::size_t count, field.array_size(1, layers + 3ULL));
  Parts parts;
  for (std::size_t i = 0; i < count; ++i) {
    const JsonField item = field.item(i);
    if (item.json().is_array()) {
      PACELINE_ASSIGN_OR_RETURN(const LayerRange range, read_layer_pair(item, layers));
      if (!parts.layers.empty() && range.begin <= parts.layers.back().end) {
        return item.expected("layers that begin after the ones before end");
      }
      parts.layers.push_back(range);
    } else if (item.json() == "embedding") {
      parts.embedding = true;
    } else if (item.json() == "head") {
      parts.head = true;
    } else if (item.json() == "shared") {
      parts.shared = true;
    } else {
      return item.expected(R"([begin, end], "embedding", "head" or "shared")");
    }
  }
  return parts;
}

Status read_extents(const JsonField& field, Manifest* manifest) {
  PACELINE_ASSIGN_OR_RETURN(const std::size_t count, field.array_size(0, kMaxValues));
  manifest->extents.reserve(count);
  std::uint64_t end = 0;  // of the extent before
  for (std::size_t i = 0; i < count; ++i) {
    const JsonField item = field.item(i);
    Extent extent;
    // Where nothing fits any more, the range is shown as the last byte alone.
    const std::uint64_t last = std::max<std::uint64_t>(manifest->weight_bytes, 1) - 1;
    PACELINE_ASSIGN_OR_RETURN(extent.offset, u64_member(item, "offset", end, std::max(end, last)));
    if (extent.offset >= manifest->weight_bytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}.offset: expected less than weights.bytes, got {}", item.path(),
                  extent.offset);
    }
    const std::uint64_t room = manifest->weight_bytes - extent.offset;
    PACELINE_ASSIGN_OR_RETURN(extent.bytes,
                              u64_member(item, "bytes", 1, std::min(kMaxExtentBytes, room)));
    PACELINE_ASSIGN_OR_RETURN(extent.sha256, sha256_member(item));
    PACELINE_ASSIGN_OR_RETURN(const auto parts, item.member("parts"));
    PACELINE_ASSIGN_OR_RETURN(extent.parts, read_parts(parts, manifest->layers));
    end = extent.offset + extent.bytes;
    manifest->extents.push_back(std::move(extent));
  }
  return {};
}

Status read_model(const JsonField& root, Manifest* manifest) {
  PACELINE_ASSIGN_OR_RETURN(manifest->paceline_version, text_member(root, "paceline_version"));
  PACELINE_ASSIGN_OR_RETURN(const auto model, root.member("model"));
  PACELINE_ASSIGN_OR_RETURN(manifest->model.name, text_member(model, "name"));
  PACELINE_ASSIGN_OR_RETURN(manifest->model.architecture, text_member(model, "architecture"));
  PACELINE_ASSIGN_OR_RETURN(manifest->model.source, text_member(model, "source"));
  PACELINE_ASSIGN_OR_RETURN(manifest->layers, u32_member(root, "layers", 1, kMaxLayers));
  PACELINE_ASSIGN_OR_RETURN(manifest->hidden_size, u32_member(root, "hidden_size", 1));
  PACELINE_ASSIGN_OR_RETURN(manifest->vocabulary_size, u32_member(root, "vocabulary_size", 1));
  PACELINE_ASSIGN_OR_RETURN(manifest->context_tokens, u32_member(root, "context_tokens", 0));
  PACELINE_ASSIGN_OR_RETURN(manifest->quantization, text_member(root, "quantization"));
  return {};
}

/// A part of the manifest that may be missing.
Status read_sampling(const JsonField& root, Manifest* manifest) {
  if (!root.json().contains("sampling")) return {};
  PACELINE_ASSIGN_OR_RETURN(const auto field, root.member("sampling"));
  if (!field.json().is_object()) return field.expected("an object");
  PACELINE_ASSIGN_OR_RETURN(manifest->model.sampling,
                            read_sampling_defaults(field.json(), "sampling."));
  return {};
}

Result<Manifest> read_document(const JsonField& root) {
  PACELINE_RETURN_IF_ERROR(check_version(root));
  Manifest manifest;
  PACELINE_RETURN_IF_ERROR(read_model(root, &manifest));
  PACELINE_RETURN_IF_ERROR(read_sampling(root, &manifest));
  PACELINE_ASSIGN_OR_RETURN(const auto kv, root.member("kv"));
  PACELINE_RETURN_IF_ERROR(read_kv(kv, &manifest));
  PACELINE_ASSIGN_OR_RETURN(const auto files, root.member("files"));
  PACELINE_RETURN_IF_ERROR(read_files(files, &manifest));
  PACELINE_ASSIGN_OR_RETURN(const auto weights, root.member("weights"));
  PACELINE_ASSIGN_OR_RETURN(manifest.weight_bytes, u64_member(weights, "bytes", 0, kMaxFileBytes));
  PACELINE_ASSIGN_OR_RETURN(const auto extents, weights.member("extents"));
  PACELINE_RETURN_IF_ERROR(read_extents(extents, &manifest));
  return manifest;
}

using Json = nlohmann::ordered_json;

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string extent_line(const Extent& extent) {
  Json parts = Json::array();
  for (const LayerRange range : extent.parts.layers) {
    parts.push_back(Json::array({range.begin, range.end}));
  }
  if (extent.parts.embedding) parts.push_back("embedding");
  if (extent.parts.head) parts.push_back("head");
  if (extent.parts.shared) parts.push_back("shared");
  return dumped(Json{{"offset", extent.offset},
                     {"bytes", extent.bytes},
                     {"sha256", to_hex(extent.sha256)},
                     {"parts", std::move(parts)}});
}

Json document_without_weights(const Manifest& manifest) {
  Json kv = Json::array();
  for (const LayerKv& layer : manifest.kv) {
    kv.push_back(Json{{"key_heads", layer.key_heads},
                      {"key_head_size", layer.key_head_size},
                      {"value_head_size", layer.value_head_size}});
  }
  Json files = Json::object();
  for (const auto& [name, file] : manifest.files) {
    files[name] = Json{{"bytes", file.bytes}, {"sha256", to_hex(file.sha256)}};
  }
  Json document = {{"format_version", manifest.format_version},
                   {"paceline_version", manifest.paceline_version},
                   {"model", Json{{"name", manifest.model.name},
                                  {"architecture", manifest.model.architecture},
                                  {"source", manifest.model.source}}},
                   {"layers", manifest.layers},
                   {"hidden_size", manifest.hidden_size},
                   {"vocabulary_size", manifest.vocabulary_size},
                   {"context_tokens", manifest.context_tokens},
                   {"quantization", manifest.quantization},
                   {"kv", std::move(kv)},
                   {"files", std::move(files)}};
  if (!manifest.model.sampling.empty()) document["sampling"] = to_json(manifest.model.sampling);
  return document;
}

}  // namespace

bool is_package_file_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || name.front() == '.') return false;
  if (name == kManifestFile || name == kWeightsFile) return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

Result<Manifest> parse_manifest(std::string_view text) {
  const auto in_file = [](const Error& error) { return fail(error.with_context(kManifestFile)); };
  if (text.size() > kMaxManifestBytes) {
    return fail(ErrorCode::kInvalidArgument, "{}: has {} bytes, at most {} are read", kManifestFile,
                text.size(), kMaxManifestBytes);
  }
  const auto document = parse_json(text, kMaxDepth, kMaxValues);
  if (!document) return in_file(document.error());
  auto manifest = read_document(JsonField(&*document, ""));
  if (!manifest) return in_file(manifest.error());
  manifest->digest = to_hex(sha256(text));
  return manifest;
}

std::string to_json(const Manifest& manifest) {
  std::string text = "{";
  const Json document = document_without_weights(manifest);
  for (const auto& [name, value] : document.items()) {
    fmt::format_to(std::back_inserter(text), "\n\"{}\": {},", name, dumped(value));
  }
  fmt::format_to(std::back_inserter(text), "\n\"weights\": {{\"bytes\": {}, \"extents\": [",
                 manifest.weight_bytes);
  for (std::size_t i = 0; i < manifest.extents.size(); ++i) {
    text += i == 0 ? "\n" : ",\n";
    text += extent_line(manifest.extents[i]);
  }
  text += "\n]}\n}\n";
  return text;
}

}  // namespace paceline::shard
