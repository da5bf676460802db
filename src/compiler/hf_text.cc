#include "compiler/hf_text.h"

#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "model/foreign_text.h"
#include "model/sentencepiece.h"
#include "system/files.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace paceline::compiler {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxValues = 2'000'000;  // Gemma's added tokens have some 60 000
constexpr std::array kSpecialTokens = {"bos_token", "eos_token", "unk_token", "pad_token"};

bool has_file(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

tl::unexpected<Error> wrong(const fs::path& path, std::string_view field,
                            std::string_view expected) {
  return fail(ErrorCode::kInvalidArgument, "{}: {}: expected {}", path.string(), field, expected);
}

/// The object in a file that may be missing: then an empty one.
Result<json> read_object(const fs::path& path) {
  if (!has_file(path)) return json::object();
  PACELINE_ASSIGN_OR_RETURN(const auto text, system::read_text_file(path, kMaxConfigBytes));
  auto object = parse_json(text, kMaxDepth, kMaxValues);
  if (!object) return fail(object.error().with_context(path.string()));
  if (!object->is_object()) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected a JSON object", path.string());
  }
  return object;
}

/// A string, or an object with a string "content"; none for null.
Result<std::optional<std::string>> token_text(const json& object, const fs::path& path,
                                              const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || field->is_null()) return std::nullopt;
  if (field->is_string()) return field->get<std::string>();
  if (field->is_object() && field->contains("content") && (*field)["content"].is_string()) {
    return (*field)["content"].get<std::string>();
  }
  return wrong(path, name, "a string, or an object with \"content\"");
}

/// tokenizer_config.json with the special tokens of special_tokens_map.json where it has none.
Result<json> complete_config(const fs::path& source) {
  const fs::path config_path = source / "tokenizer_config.json";
  const fs::path map_path = source / "special_tokens_map.json";
  PACELINE_ASSIGN_OR_RETURN(json config, read_object(config_path));
  PACELINE_ASSIGN_OR_RETURN(const json map, read_object(map_path));
  for (const char* name : kSpecialTokens) {
    PACELINE_ASSIGN_OR_RETURN(const auto own, token_text(config, config_path, name));
    if (own) continue;
    PACELINE_ASSIGN_OR_RETURN(auto mapped, token_text(map, map_path, name));
    if (mapped) config[name] = *std::move(mapped);
  }
  return config;
}

/// "added_tokens_decoder": {"32000": {"content": "<|end|>", "special": true}, ...}, by id.
Result<std::map<std::size_t, std::pair<std::string, bool>>> added_tokens(const json& config,
                                                                         const fs::path& path) {
  std::map<std::size_t, std::pair<std::string, bool>> tokens;
  const auto list = config.find("added_tokens_decoder");
  if (list == config.end() || list->is_null()) return tokens;
  if (!list->is_object()) return wrong(path, "added_tokens_decoder", "an object");
  for (const auto& [key, token] : list->items()) {
    std::size_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const auto content = token.is_object() ? token.find("content") : token.end();
    if (error != std::errc() || end != key.data() + key.size() || !token.is_object() ||
        content == token.end() || !content->is_string()) {
      return wrong(path, fmt::format("added_tokens_decoder: {}", model::in_quotes(key)),
                   "a token's id, and an object with \"content\"");
    }
    const auto special = token.find("special");
    tokens[id] = {content->get<std::string>(), special != token.end() && *special == true};
  }
  return tokens;
}

Status add_tokens(const json& config, const fs::path& path, model::Vocabulary& vocabulary) {
  constexpr std::int32_t kControl = 3;
  constexpr std::int32_t kUserDefined = 4;
  PACELINE_ASSIGN_OR_RETURN(const auto tokens, added_tokens(config, path));
  for (const auto& [id, token] : tokens) {
    const std::int32_t type = token.second ? kControl : kUserDefined;
    if (id < vocabulary.tokens.size()) {
      if (vocabulary.tokens[id] != token.first) {
        return wrong(
            path, fmt::format("added_tokens_decoder: {}", id),
            fmt::format("{} as in tokenizer.model", model::in_quotes(vocabulary.tokens[id])));
      }
      if (static_cast<std::int64_t>(id) != vocabulary.unknown_id) {
        vocabulary.token_types[id] = type;
      }
      continue;
    }
    if (id != vocabulary.tokens.size()) {
      return wrong(path, fmt::format("added_tokens_decoder: {}", id),
                   fmt::format("{} to come first", vocabulary.tokens.size()));
    }
    vocabulary.tokens.push_back(token.first);
    vocabulary.scores.push_back(0.0F);
    vocabulary.token_types.push_back(type);
  }
  return {};
}

Status read_flag(const json& config, const fs::path& path, const char* name,
                 std::optional<bool>& flag) {
  const auto field = config.find(name);
  if (field == config.end() || field->is_null()) return {};
  if (!field->is_boolean()) return wrong(path, name, "true or false");
  flag = field->get<bool>();
  return {};
}

Result<std::string> made_tokenizer(const fs::path& source, const std::string& architecture,
                                   const json& config) {
  const fs::path model_path = source / "tokenizer.model";
  const fs::path config_path = source / "tokenizer_config.json";
  auto read = model::read_sentencepiece(model_path);
  if (!read) return fail(std::move(read).error());
  model::Vocabulary& vocabulary = *read;
  vocabulary.architecture = architecture;
  PACELINE_RETURN_IF_ERROR(add_tokens(config, config_path, vocabulary));
  PACELINE_RETURN_IF_ERROR(read_flag(config, config_path, "add_bos_token", vocabulary.add_bos));
  PACELINE_RETURN_IF_ERROR(read_flag(config, config_path, "add_eos_token", vocabulary.add_eos));
  auto json = text::tokenizer_json_from(std::move(vocabulary));
  if (!json) return fail(json.error().with_context(model_path.string()));
  return json;
}

Result<std::string> tokenizer_of(const fs::path& source, const std::string& architecture,
                                 const json& config) {
  if (has_file(source / "tokenizer.json")) {
    return system::read_text_file(source / "tokenizer.json", text::Tokenizer::kMaxFileBytes);
  }
  if (has_file(source / "tokenizer.model")) return made_tokenizer(source, architecture, config);
  return fail(ErrorCode::kNotFound,
              "{}: has no tokenizer.json and no tokenizer.model; get it from where the model was "
              "published, or let transformers make it: "
              "AutoTokenizer.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)",
              source.string());
}

struct Template {
  std::string source;
  std::string origin;  ///< file and field, for errors
};

/// The field "chat_template": a string, or a list of {"name", "template"}.
Result<std::optional<Template>> template_in(const json& object, const fs::path& path) {
  const auto field = object.find("chat_template");
  if (field == object.end() || field->is_null()) return std::nullopt;
  const std::string origin = path.string() + ": chat_template";
  if (field->is_string()) return Template{field->get<std::string>(), origin};
  if (!field->is_array()) return wrong(path, "chat_template", "a string or a list");
  for (const auto& entry : *field) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template") ||
        !entry["name"].is_string() || !entry["template"].is_string()) {
      return wrong(path, "chat_template", "objects with the strings \"name\" and \"template\"");
    }
    if (entry["name"] == "default") return Template{entry["template"].get<std::string>(), origin};
  }
  return wrong(path, "chat_template", "one named \"default\" among them");
}

Result<std::optional<Template>> template_of(const fs::path& source, const json& config) {
  const fs::path jinja = source / "chat_template.jinja";
  if (has_file(jinja)) {
    PACELINE_ASSIGN_OR_RETURN(auto text, system::read_text_file(jinja, kMaxConfigBytes));
    return Template{std::move(text), jinja.string()};
  }
  const fs::path old = source / "chat_template.json";
  PACELINE_ASSIGN_OR_RETURN(const json object, read_object(old));
  PACELINE_ASSIGN_OR_RETURN(auto found, template_in(object, old));
  if (found) return found;
  return template_in(config, source / "tokenizer_config.json");
}

/// Writes the file, and the same into `config`, where older readers look.
Status write_template(const fs::path& source, const fs::path& directory, json& config) {
  PACELINE_ASSIGN_OR_RETURN(const auto found, template_of(source, config));
  if (!found) return {};
  if (auto parsed = text::ChatTemplate::parse(found->source); !parsed) {
    return fail(parsed.error().with_context(found->origin));
  }
  config["chat_template"] = found->source;
  return system::write_file_atomically(directory / "chat_template.jinja", found->source);
}

Status write_json(const fs::path& path, const json& object) {
  return system::write_file_atomically(
      path, object.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace

Result<HfText> write_hf_text(const fs::path& source, const std::string& architecture,
                             const fs::path& directory) {
  PACELINE_ASSIGN_OR_RETURN(json config, complete_config(source));
  PACELINE_ASSIGN_OR_RETURN(const auto content, tokenizer_of(source, architecture, config));
  // What would fail at every start of the model fails here, once.
  auto tokenizer = text::Tokenizer::parse(content);
  if (!tokenizer) {
    return fail(tokenizer.error().with_context((source / "tokenizer.json").string()));
  }
  PACELINE_RETURN_IF_ERROR(system::write_file_atomically(directory / "tokenizer.json", content));
  PACELINE_RETURN_IF_ERROR(write_template(source, directory, config));
  PACELINE_RETURN_IF_ERROR(write_json(directory / "tokenizer_config.json", config));
  if (has_file(source / "special_tokens_map.json")) {
    PACELINE_ASSIGN_OR_RETURN(const json map, read_object(source / "special_tokens_map.json"));
    PACELINE_RETURN_IF_ERROR(write_json(directory / "special_tokens_map.json", map));
  }
  HfText text;
  PACELINE_ASSIGN_OR_RETURN(const auto eos,
                            token_text(config, source / "tokenizer_config.json", "eos_token"));
  if (eos) text.eos_id = tokenizer->token_id(*eos);
  return text;
}

}  // namespace paceline::compiler
