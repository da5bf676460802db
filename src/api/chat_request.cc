#include "api/chat_request.h"

#include "api/chat_messages.h"
#include "api/tool_choice.h"

namespace paceline::api {
namespace {

constexpr std::size_t kMaxTools = 128;
constexpr std::size_t kMaxFunctionName = 64;

void read_tool(const Json& tool, Fields&& fields, Json& tools) {
  fields.require("type");
  if (fields.has("type") && *fields.find("type") != "function") {
    return fields.refuse_unsupported("type", "only tools of type function are offered");
  }
  fields.require("function");
  const Json* function = fields.object("function");
  if (function == nullptr) return;
  Fields inner = fields.inside(*function, "function.");
  inner.require("name");
  const auto name = inner.text("name");
  if (name && !is_function_name(*name)) {
    inner.refuse("name", "expected 1 to 64 letters, digits, underscores, dots and dashes");
  }
  (void)inner.text("description");
  (void)inner.object("parameters");
  (void)inner.boolean("strict");
  tools.push_back(tool);
}

void read_tools(Fields& fields, ChatPrompt& prompt) {
  const Json* tools = fields.array("tools", kMaxTools);
  if (tools == nullptr) return;
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    if (!tool.is_object()) return fields.refuse("tools", "expected an array of objects");
    read_tool(tool, fields.inside(tool, fmt::format("tools[{}].", i)), prompt.tools);
  }
}

void read_reasoning(Fields& fields, ChatRequest& read) {
  const auto effort =
      fields.one_of("reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh"});
  Json& variables = read.prompt.variables;
  if (effort && !variables.contains("reasoning_effort")) variables["reasoning_effort"] = *effort;
  // What templates of the Qwen family ask for.
  if (effort == "none" && !variables.contains("enable_thinking")) {
    variables["enable_thinking"] = false;
  }
  read.separates_reasoning = fields.boolean("separate_reasoning").value_or(true);
}

void read_forms(Fields& fields) {
  if (const Json* modalities = fields.array("modalities", 8)) {
    for (const Json& modality : *modalities) {
      if (modality != "text") fields.refuse_unsupported("modalities", "only text is offered");
    }
  }
  const auto verbosity = fields.one_of("verbosity", {"low", "medium", "high"});
  if (verbosity && *verbosity != "medium") {
    fields.refuse_unsupported("verbosity", "only medium is offered");
  }
  if (fields.boolean("echo").value_or(false)) {
    fields.refuse_unsupported("echo", "is for /v1/completions");
  }
}

void read_logprobs(Fields& fields, GenerationFields& read) {
  const bool is_asked = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, sampling::SamplingSpec::kMaxLogprobs);
  if (top && !is_asked) fields.refuse("top_logprobs", "needs logprobs true");
  if (is_asked) read.logprobs = static_cast<std::uint32_t>(top.value_or(0));
}

}  // namespace

bool is_function_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.size() <= kMaxFunctionName &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

ChatPrompt read_chat_prompt(Fields& fields) {
  ChatPrompt prompt;
  prompt.messages = read_messages(fields);
  read_tools(fields, prompt);
  if (const Json* variables = fields.object("chat_template_kwargs")) prompt.variables = *variables;
  prompt.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  const auto opens = fields.boolean("add_generation_prompt");
  prompt.add_generation_prompt = opens.value_or(!prompt.continue_final_message);
  prompt.add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  if (!prompt.continue_final_message || fields.has_problem()) return prompt;
  if (prompt.add_generation_prompt) {
    fields.refuse("continue_final_message", "excludes add_generation_prompt");
  }
  const Json& last = prompt.messages.back();
  if (last["role"] != "assistant" || last["content"] == "") {
    fields.refuse("continue_final_message", "needs a last message of the assistant with text");
  }
  return prompt;
}

Parsed<ChatRequest> parse_chat_request(std::string_view body) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected(json.error());
  std::optional<ApiError> problem;
  Fields fields(*json, problem);
  ChatRequest read;
  read.prompt = read_chat_prompt(fields);
  read.generation = read_generation_fields(fields);
  if (read.generation.max_tokens == 0U) {
    fields.refuse("max_tokens", "expected an integer of at least 1, got 0");
  }
  read_tool_choice(fields, NamedTool::kInFunction, read);
  read_reasoning(fields, read);
  read_forms(fields);
  read_logprobs(fields, read.generation);
  if (problem) return tl::unexpected(*std::move(problem));
  return read;
}

}  // namespace paceline::api
