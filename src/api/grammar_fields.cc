#include "api/grammar_fields.h"

#include <array>
#include <utility>

namespace paceline::api {
namespace {

constexpr std::size_t kMaxChoices = 1024;
constexpr std::size_t kMaxName = 64;

/// Longer ones are refused here, as they are no more than a part of the body.
std::optional<GrammarSpec> spec_of(Fields& fields, const char* name, GrammarKind kind,
                                   std::string text) {
  if (text.size() > GrammarSpec::kMaxTextBytes) {
    fields.refuse(name, fmt::format("expected at most {} bytes, got {}", GrammarSpec::kMaxTextBytes,
                                    text.size()));
    return std::nullopt;
  }
  return GrammarSpec{kind, std::move(text)};
}

/// OpenAI's {"name", "description", "strict", "schema"}. Strict or not, the schema holds.
std::optional<AskedGrammar> read_json_schema(Fields& fields) {
  fields.require("name");
  (void)fields.text("name", kMaxName);
  (void)fields.text("description");
  (void)fields.boolean("strict");
  fields.require("schema");
  const Json* schema = fields.object("schema");
  if (schema == nullptr) return std::nullopt;
  auto spec = spec_of(fields, "schema", GrammarKind::kJsonSchema, schema->dump());
  if (!spec) return std::nullopt;
  return AskedGrammar{*std::move(spec), fields.path("schema")};
}

std::optional<std::string> read_type(Fields& format) {
  format.require("type");
  return format.one_of("type", {"text", "json_object", "json_schema"});
}

std::optional<AskedGrammar> read_response_format(Fields& fields) {
  const Json* format = fields.object("response_format");
  if (format == nullptr) return std::nullopt;
  Fields inner = fields.inside(*format, "response_format.");
  const auto type = read_type(inner);
  if (type == "json_object") return AskedGrammar{{}, "response_format"};
  if (type != "json_schema") return std::nullopt;
  inner.require("json_schema");
  const Json* asked = inner.object("json_schema");
  if (asked == nullptr) return std::nullopt;
  Fields schema = inner.inside(*asked, "json_schema.");
  return read_json_schema(schema);
}

std::optional<GrammarSpec> read_json(Fields& fields) {
  const Json* json = fields.find("json");
  if (json == nullptr) return std::nullopt;
  if (!json->is_object() && !json->is_string()) {
    fields.refuse("json", "expected a JSON schema: an object, or a string that holds one");
    return std::nullopt;
  }
  return spec_of(fields, "json", GrammarKind::kJsonSchema,
                 json->is_string() ? json->get<std::string>() : json->dump());
}

std::optional<GrammarSpec> read_choice(Fields& fields) {
  const Json* choice = fields.array("choice", kMaxChoices);
  if (choice == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  for (const Json& item : *choice) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) break;
    texts.push_back(item.get<std::string>());
  }
  if (texts.empty() || texts.size() != choice->size()) {
    fields.refuse("choice", "expected at least one string, none of them empty");
    return std::nullopt;
  }
  GrammarSpec spec = choice_grammar(texts);
  return spec_of(fields, "choice", spec.kind, std::move(spec.text));
}

std::optional<GrammarSpec> read_text(Fields& fields, const char* name, GrammarKind kind) {
  auto text = fields.text(name);
  if (!text) return std::nullopt;
  if (text->empty()) {
    fields.refuse(name, "may not be empty");
    return std::nullopt;
  }
  return spec_of(fields, name, kind, *std::move(text));
}

std::optional<AskedGrammar> read_structured_outputs(Fields& fields) {
  const Json* asked = fields.object("structured_outputs");
  if (asked == nullptr) return std::nullopt;
  Fields inner = fields.inside(*asked, "structured_outputs.");
  std::optional<AskedGrammar> read;
  const auto take = [&](const char* name, std::optional<GrammarSpec> spec) {
    if (!spec) return;
    if (read) inner.refuse(name, "excludes " + read->field);
    read = AskedGrammar{*std::move(spec), inner.path(name)};
  };
  take("json", read_json(inner));
  take("regex", read_text(inner, "regex", GrammarKind::kRegex));
  take("choice", read_choice(inner));
  take("grammar", read_text(inner, "grammar", GrammarKind::kLark));
  if (inner.boolean("json_object").value_or(false)) take("json_object", GrammarSpec());
  for (const char* name : {"structural_tag", "whitespace_pattern"}) {
    if (inner.has(name)) inner.refuse_unsupported(name, "is not offered");
  }
  return read;
}

}  // namespace

std::optional<AskedGrammar> read_text_format(Fields format) {
  const auto type = read_type(format);
  std::optional<AskedGrammar> read;
  if (type == "json_object") read.emplace().field = format.path("type");
  if (type == "json_schema") read = read_json_schema(format);
  return read;
}

GrammarSpec choice_grammar(const std::vector<std::string>& texts) {
  std::string grammar = "start: ";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) grammar += " | ";
    grammar += Json(texts[i]).dump(-1, ' ', true);  // Lark's strings are spelled as JSON's
  }
  return {GrammarKind::kLark, std::move(grammar)};
}

std::optional<AskedGrammar> read_grammar(Fields& fields) {
  auto format = read_response_format(fields);
  auto structured = read_structured_outputs(fields);
  if (format && structured) fields.refuse("structured_outputs", "excludes response_format");
  return format ? std::move(format) : std::move(structured);
}

}  // namespace paceline::api
