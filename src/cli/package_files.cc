#include "cli/package_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "system/files.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMaxConfigBytes = 16ULL << 20;

/// The file's JSON object; an empty one where there is no such file.
Result<nlohmann::json> read_json_object(const fs::path& path) {
  auto text = system::read_text_file(path, kMaxConfigBytes);
  if (!text) {
    if (text.error().code() == ErrorCode::kNotFound) return nlohmann::json::object();
    return fail(std::move(text).error());
  }
  auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object()) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected a JSON object", path.string());
  }
  return json;
}

Result<std::set<std::int64_t>> token_ids(const nlohmann::json& object, const fs::path& path) {
  std::set<std::int64_t> ids;
  const auto field = object.find("eos_token_id");
  if (field == object.end() || field->is_null()) return ids;
  const auto list = field->is_array() ? *field : nlohmann::json::array({*field});
  for (const auto& id : list) {
    if (!id.is_number_integer()) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: eos_token_id: expected an integer or a list of them", path.string());
    }
    ids.insert(id.get<std::int64_t>());
  }
  return ids;
}

/// A special token of tokenizer_config.json: a string, or an object with "content".
std::string token_text(const nlohmann::json& config, const char* name) {
  const auto field = config.find(name);
  if (field == config.end()) return {};
  if (field->is_string()) return field->get<std::string>();
  if (field->is_object() && field->contains("content") && (*field)["content"].is_string()) {
    return (*field)["content"].get<std::string>();
  }
  return {};
}

}  // namespace

Result<text::Tokenizer> load_tokenizer(const fs::path& package) {
  auto tokenizer = text::Tokenizer::load(package / kTokenizerFile);
  if (!tokenizer && tokenizer.error().code() == ErrorCode::kNotFound) {
    return fail(ErrorCode::kNotFound, "{}: has no tokenizer.json, so it cannot read text",
                package.string());
  }
  return tokenizer;
}

Status check_same_tokens(const text::Tokenizer& draft, const text::Tokenizer& model) {
  const std::int64_t most = std::max(draft.vocabulary_size(), model.vocabulary_size());
  for (std::int64_t id = 0; id < most; ++id) {
    PACELINE_ASSIGN_OR_RETURN(const auto one, draft.decode({&id, 1}, false));
    PACELINE_ASSIGN_OR_RETURN(const auto other, model.decode({&id, 1}, false));
    if (one == other) continue;
    return fail(ErrorCode::kInvalidArgument,
                "token {} is \"{}\" in the draft model and \"{}\" in the model; expected the same "
                "vocabulary",
                id, one, other);
  }
  return {};
}

Result<std::set<std::int64_t>> read_end_tokens(const fs::path& package) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const fs::path path = package / name;
    PACELINE_ASSIGN_OR_RETURN(const auto object, read_json_object(path));
    PACELINE_ASSIGN_OR_RETURN(auto ids, token_ids(object, path));
    if (!ids.empty()) return ids;
  }
  return std::set<std::int64_t>();
}

Result<ChatFormat> load_chat_format(const fs::path& package) {
  PACELINE_ASSIGN_OR_RETURN(const auto config, read_json_object(package / "tokenizer_config.json"));
  const fs::path jinja = package / "chat_template.jinja";
  auto source = system::read_text_file(jinja, kMaxConfigBytes);
  std::string origin = jinja.string();
  if (!source && source.error().code() != ErrorCode::kNotFound) {
    return fail(std::move(source).error());
  }
  if (!source) {
    const auto field = config.find("chat_template");
    if (field == config.end() || !field->is_string()) {
      return fail(ErrorCode::kNotFound,
                  "{}: has no chat template; use paceline generate for plain text",
                  package.string());
    }
    source = field->get<std::string>();
    origin = (package / "tokenizer_config.json").string();
  }
  auto parsed = text::ChatTemplate::parse(*source);
  if (!parsed) return fail(parsed.error().with_context(origin));
  return ChatFormat{*std::move(parsed), token_text(config, "bos_token"),
                    token_text(config, "eos_token"), *std::move(source)};
}

}  // namespace paceline::cli
