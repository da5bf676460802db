// The trailer of a form's file: foreign JSON to FormHeader and back.
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "shard/form_cache.h"
#include "shard/json_field.h"

namespace paceline::shard {
namespace {

using nlohmann::json;

constexpr std::uint64_t kFormVersion = 2;
constexpr std::uint64_t kMaxNumber = 1ULL << 53;  ///< what every JSON reader keeps exact
constexpr std::size_t kMaxDepth = 4;
constexpr std::size_t kMaxValues = 1000;

Result<std::string> text(const JsonField& object, std::string_view name) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member(name));
  return field.text(kFormTrailerBytes);
}

Result<std::uint64_t> number(const JsonField& object, std::string_view name) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member(name));
  return field.integer(0, kMaxNumber);
}

Result<bool> truth(const JsonField& object, std::string_view name) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member(name));
  if (!field.json().is_boolean()) return field.expected("true or false");
  return field.json().get<bool>();
}

Result<LayerRange> layers(const JsonField& object) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member("layers"));
  PACELINE_RETURN_IF_ERROR(field.array_size(2, 2));
  PACELINE_ASSIGN_OR_RETURN(const auto begin, field.item(0).integer(0, UINT32_MAX - 1));
  PACELINE_ASSIGN_OR_RETURN(const auto end, field.item(1).integer(begin + 1, UINT32_MAX));
  return LayerRange{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

Result<Profile> profile(const JsonField& object) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member("profile"));
  if (field.json() == "fast") return Profile::kFast;
  if (field.json() == "exact") return Profile::kExact;
  return field.expected(R"("fast" or "exact")");
}

Result<std::map<std::string, std::string>> properties(const JsonField& object) {
  PACELINE_ASSIGN_OR_RETURN(const auto field, object.member("properties"));
  if (!field.json().is_object()) return field.expected("an object");
  std::map<std::string, std::string> values;
  for (const auto& [name, ignored] : field.json().items()) {
    PACELINE_ASSIGN_OR_RETURN(values[name], text(field, name));
  }
  return values;
}

Result<FormIdentity> identity(const JsonField& root) {
  FormIdentity form;
  PACELINE_ASSIGN_OR_RETURN(form.package_digest, text(root, "package_digest"));
  PACELINE_ASSIGN_OR_RETURN(form.layers, layers(root));
  PACELINE_ASSIGN_OR_RETURN(form.device, text(root, "device"));
  PACELINE_ASSIGN_OR_RETURN(form.engine, text(root, "engine"));
  PACELINE_ASSIGN_OR_RETURN(form.profile, profile(root));
  PACELINE_ASSIGN_OR_RETURN(form.device_name, text(root, "device_name"));
  PACELINE_ASSIGN_OR_RETURN(form.isa, text(root, "isa"));
  PACELINE_ASSIGN_OR_RETURN(form.openvino_version, text(root, "openvino_version"));
  PACELINE_ASSIGN_OR_RETURN(form.properties, properties(root));
  return form;
}

std::string shown(LayerRange range) { return fmt::format("{}:{}", range.begin, range.end); }

std::string differs(std::string_view field, std::string_view form, std::string_view wanted) {
  return fmt::format("{}: the form has {}, this is {}", field, form.empty() ? "nothing" : form,
                     wanted.empty() ? "nothing" : wanted);
}

}  // namespace

Result<FormHeader> parse_form_header(std::string_view text_of_file) {
  PACELINE_ASSIGN_OR_RETURN(const auto document, parse_json(text_of_file, kMaxDepth, kMaxValues));
  const JsonField root(&document, "");
  PACELINE_ASSIGN_OR_RETURN(const auto version, number(root, "form_version"));
  if (version != kFormVersion) {
    return fail(ErrorCode::kInvalidArgument, "form_version: expected {}, got {}", kFormVersion,
                version);
  }
  FormHeader header;
  PACELINE_ASSIGN_OR_RETURN(header.identity, identity(root));
  PACELINE_ASSIGN_OR_RETURN(header.weight_group, number(root, "weight_group"));
  PACELINE_ASSIGN_OR_RETURN(header.weight_bytes, number(root, "weight_bytes"));
  PACELINE_ASSIGN_OR_RETURN(header.embedding_rows, number(root, "embedding_rows"));
  PACELINE_ASSIGN_OR_RETURN(header.rewinds_by_mask, truth(root, "rewinds_by_mask"));
  PACELINE_ASSIGN_OR_RETURN(header.compile_us, number(root, "compile_us"));
  PACELINE_ASSIGN_OR_RETURN(header.blob_bytes, number(root, "blob_bytes"));
  PACELINE_ASSIGN_OR_RETURN(const auto hash, text(root, "blob_sha256"));
  const auto digest = sha256_from_hex(hash);
  if (!digest) {
    return fail(ErrorCode::kInvalidArgument,
                "blob_sha256: expected 64 lower-case hexadecimal digits");
  }
  header.blob_sha256 = *digest;
  return header;
}

Result<std::string> form_trailer(const FormHeader& header) {
  const FormIdentity& form = header.identity;
  const json document = {{"form_version", kFormVersion},
                         {"package_digest", form.package_digest},
                         {"layers", {form.layers.begin, form.layers.end}},
                         {"device", form.device},
                         {"engine", form.engine},
                         {"profile", to_string(form.profile)},
                         {"device_name", form.device_name},
                         {"isa", form.isa},
                         {"openvino_version", form.openvino_version},
                         {"properties", form.properties},
                         {"weight_group", header.weight_group},
                         {"weight_bytes", header.weight_bytes},
                         {"embedding_rows", header.embedding_rows},
                         {"rewinds_by_mask", header.rewinds_by_mask},
                         {"compile_us", header.compile_us},
                         {"blob_bytes", header.blob_bytes},
                         {"blob_sha256", to_hex(header.blob_sha256)}};
  std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kFormTrailerBytes) {
    return fail(ErrorCode::kInternal, "a form's description has {} bytes, at most {} fit",
                text.size(), kFormTrailerBytes);
  }
  text.resize(kFormTrailerBytes, ' ');
  return text;
}

std::string form_difference(const FormIdentity& form, const FormIdentity& wanted) {
  const std::array<std::pair<const char*, std::string FormIdentity::*>, 6> texts = {{
      {"package_digest", &FormIdentity::package_digest},
      {"device", &FormIdentity::device},
      {"engine", &FormIdentity::engine},
      {"device_name", &FormIdentity::device_name},
      {"isa", &FormIdentity::isa},
      {"openvino_version", &FormIdentity::openvino_version},
  }};
  for (const auto& [name, member] : texts) {
    if (form.*member != wanted.*member) return differs(name, form.*member, wanted.*member);
  }
  if (form.layers != wanted.layers) {
    return differs("layers", shown(form.layers), shown(wanted.layers));
  }
  if (form.profile != wanted.profile) {
    return differs("profile", to_string(form.profile), to_string(wanted.profile));
  }
  const auto value = [](const FormIdentity& of, const std::string& name) {
    const auto found = of.properties.find(name);
    return found == of.properties.end() ? std::string() : found->second;
  };
  for (const FormIdentity* side : {&form, &wanted}) {
    for (const auto& [name, ignored] : side->properties) {
      if (value(form, name) == value(wanted, name)) continue;
      return differs("property " + name, value(form, name), value(wanted, name));
    }
  }
  return {};
}

}  // namespace paceline::shard
