#include "api/response_request.h"

#include <array>
#include <utility>

#include "api/response_input.h"
#include "api/tool_choice.h"

namespace paceline::api {
namespace {

constexpr std::size_t kMaxTools = 128;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
constexpr const char* kStateless = "is not offered: responses are not stored; send the whole input";

struct Refused {
  const char* name;
  const char* why;
};

constexpr std::array kRefused = {
    Refused{"previous_response_id", kStateless},
    Refused{"conversation", kStateless},
    Refused{"background", "is not offered: responses are not stored; use stream, or /v1/batches"},
    Refused{"prompt", "stored prompts are not offered; use instructions and input"},
    Refused{"max_tool_calls", "limits tools of the server's own, which are not offered"},
    Refused{"context_management", "is not offered"},
    Refused{"moderation", "is not offered"},
    Refused{"max_tokens", "is of chats; use max_output_tokens"},
    Refused{"max_completion_tokens", "is of chats; use max_output_tokens"},
    Refused{"response_format", "is of chats; use text.format"},
    Refused{"reasoning_effort", "is of chats; use reasoning.effort"},
    Refused{"messages", "is of chats; use input"},
};

void refuse_unoffered(Fields& fields) {
  for (const Refused& refused : kRefused) {
    const Json* value = fields.find(refused.name);
    if (value != nullptr && *value != false) fields.refuse_unsupported(refused.name, refused.why);
  }
  if (fields.one_of("truncation", {"auto", "disabled"}) == "auto") {
    fields.refuse_unsupported("truncation", "only disabled is offered: input is never cut");
  }
}

/// A chat's form of it, as templates expect it.
Json read_tool(Fields&& fields) {
  fields.require("type");
  if (fields.has("type") && *fields.find("type") != "function") {
    fields.refuse_unsupported("type", "only tools of type function are offered");
  }
  fields.require("name");
  const auto name = fields.text("name");
  if (name && !is_function_name(*name)) {
    fields.refuse("name", "expected 1 to 64 letters, digits, underscores, dots and dashes");
  }
  Json function = {{"name", name.value_or("")}};
  if (fields.boolean("strict").value_or(false)) function["strict"] = true;
  if (auto text = fields.text("description")) function["description"] = *std::move(text);
  if (const Json* parameters = fields.object("parameters")) function["parameters"] = *parameters;
  return {{"type", "function"}, {"function", std::move(function)}};
}

void read_tools(Fields& fields, ResponseRequest& read) {
  read.shown["tools"] = Json::array();
  const Json* tools = fields.array("tools", kMaxTools);
  if (tools == nullptr) return;
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    if (!tool.is_object()) return fields.refuse("tools", "expected an array of objects");
    read.chat.prompt.tools.push_back(read_tool(fields.inside(tool, fmt::format("tools[{}].", i))));
    Json shown = tool;
    shown["strict"] = tool.value("strict", Json()) == true;
    if (!shown.contains("parameters")) shown["parameters"] = nullptr;
    read.shown["tools"].push_back(std::move(shown));
  }
}

void show_tool_choice(Fields& fields, ResponseRequest& read) {
  const Json* choice = fields.find("tool_choice");
  read.shown["tool_choice"] = choice == nullptr ? Json("auto") : *choice;
  read_tool_choice(fields, NamedTool::kFlat, read.chat);
  read.shown["parallel_tool_calls"] = read.chat.parallel_tool_calls;
}

void read_reasoning(Fields& fields, ResponseRequest& read) {
  read.shown["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
  const Json* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  Fields inner = fields.inside(*reasoning, "reasoning.");
  for (const char* name : {"summary", "generate_summary"}) {
    // What the model thinks is given in the clear.
    const auto summary = inner.one_of(name, {"auto", "concise", "detailed"});
    if (summary && *summary != "auto") {
      inner.refuse_unsupported(name, "summaries are not offered; reasoning comes as it is");
    }
  }
  const auto effort =
      inner.one_of("effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  if (!effort) return;
  read.shown["reasoning"]["effort"] = *effort;
  Json& variables = read.chat.prompt.variables;
  if (!variables.contains("reasoning_effort")) variables["reasoning_effort"] = *effort;
  if (*effort == "none" && !variables.contains("enable_thinking")) {
    variables["enable_thinking"] = false;
  }
}

void read_text(Fields& fields, ResponseRequest& read) {
  read.shown["text"] = {{"format", {{"type", "text"}}}, {"verbosity", "medium"}};
  const Json* text = fields.object("text");
  if (text == nullptr) return;
  Fields inner = fields.inside(*text, "text.");
  const auto verbosity = inner.one_of("verbosity", {"low", "medium", "high"});
  if (verbosity && *verbosity != "medium") {
    inner.refuse_unsupported("verbosity", "only medium is offered");
  }
  const Json* format = inner.object("format");
  if (format == nullptr) return;
  read.shown["text"]["format"] = *format;
  auto form = read_text_format(inner.inside(*format, "format."));
  if (!form) return;
  if (read.chat.generation.grammar) fields.refuse("structured_outputs", "excludes text.format");
  read.chat.generation.grammar = std::move(form);
  check_form(fields, read.chat.generation);
}

void read_logprobs(Fields& fields, ResponseRequest& read) {
  bool is_included = false;
  if (const Json* include = fields.array("include", 16)) {
    for (const Json& item : *include) {
      if (item == "message.output_text.logprobs") {
        is_included = true;
      } else if (item != "reasoning.encrypted_content") {  // it comes in the clear
        fields.refuse_unsupported("include", "only message.output_text.logprobs is offered");
      }
    }
  }
  const auto top = fields.integer("top_logprobs", 0, sampling::SamplingSpec::kMaxLogprobs);
  read.shown["top_logprobs"] = top.value_or(0);
  if (is_included || top.value_or(0) > 0) {
    read.chat.generation.logprobs = static_cast<std::uint32_t>(top.value_or(0));
  }
}

void read_generation(Fields& fields, ResponseRequest& read) {
  GenerationFields& generation = read.chat.generation;
  generation = read_generation_fields(fields);
  generation.include_usage = false;
  if (generation.choices != 1) fields.refuse_unsupported("n", "is of chats; one answer is given");
  const auto max = fields.integer("max_output_tokens", 1, kMaxTokens);
  if (max) generation.max_tokens = static_cast<std::uint32_t>(*max);
  generation.limit_field = "max_output_tokens";
  read.shown["max_output_tokens"] = max ? Json(*max) : Json();
  for (const char* name :
       {"instructions", "metadata", "user", "safety_identifier", "prompt_cache_key"}) {
    const Json* value = fields.find(name);
    read.shown[name] = value == nullptr ? Json() : *value;
  }
  if (read.shown["metadata"].is_null()) read.shown["metadata"] = Json::object();
}

}  // namespace

Parsed<ResponseRequest> parse_response_request(std::string_view body) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected(json.error());
  std::optional<ApiError> problem;
  Fields fields(*json, problem);
  ResponseRequest read;
  refuse_unoffered(fields);
  read.chat.prompt.messages = read_response_input(fields);
  if (const Json* variables = fields.object("chat_template_kwargs")) {
    read.chat.prompt.variables = *variables;
  }
  read_generation(fields, read);
  read_tools(fields, read);
  read_text(fields, read);
  show_tool_choice(fields, read);
  read_reasoning(fields, read);
  read_logprobs(fields, read);
  if (problem) return tl::unexpected(*std::move(problem));
  return read;
}

}  // namespace paceline::api
