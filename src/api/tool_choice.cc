#include "api/tool_choice.h"

#include <algorithm>

namespace paceline::api {
namespace {

bool is_strict(const Json& tool) {
  const auto strict = tool["function"].find("strict");
  return strict != tool["function"].end() && *strict == true;
}

bool is_one_of(const Json& tools, std::string_view wanted) {
  return std::any_of(tools.begin(), tools.end(), [wanted](const Json& tool) {
    const auto name = tool["function"].find("name");
    return name != tool["function"].end() && *name == wanted;
  });
}

void read_name(Fields& fields, ChatRequest& read) {
  fields.require("name");
  read.named_tool = fields.text("name").value_or("");
  if (!is_one_of(read.prompt.tools, read.named_tool)) {
    fields.refuse("name", "none of the tools has this name");
  }
}

void read_named_tool(Fields& fields, const Json& choice, NamedTool naming, ChatRequest& read) {
  if (!choice.is_object()) {
    return fields.refuse("tool_choice",
                         "expected none, auto, required or an object that names a function");
  }
  Fields inner = fields.inside(choice, "tool_choice.");
  inner.require("type");
  if (inner.has("type") && *inner.find("type") != "function") {
    return inner.refuse_unsupported("type", "only function is offered");
  }
  if (naming == NamedTool::kFlat) return read_name(inner, read);
  inner.require("function");
  const Json* function = inner.object("function");
  if (function == nullptr) return;
  Fields named = inner.inside(*function, "function.");
  read_name(named, read);
}

/// An answer of a grammar is whole where it may end, and needs a token to end with.
void check_end(Fields& fields, const ChatRequest& read) {
  if (!needs_call_grammar(read)) return;
  const char* why = read.must_call ? "excludes tool_choice" : "excludes tools that are strict";
  if (read.generation.min_tokens > 0) fields.refuse("min_tokens", why);
  if (read.generation.ignore_eos) fields.refuse("ignore_eos", why);
}

}  // namespace

void read_tool_choice(Fields& fields, NamedTool naming, ChatRequest& read) {
  const Json* choice = fields.find("tool_choice");
  read.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  read.parses_tool_calls = !read.prompt.tools.empty();
  if (choice != nullptr && *choice == "none") {
    read.parses_tool_calls = false;
    read.prompt.tools = Json::array();
  } else if (choice != nullptr && read.prompt.tools.empty()) {
    fields.refuse("tool_choice", "is for requests with tools");
  } else if (choice != nullptr && *choice != "auto") {
    read.must_call = true;
    if (*choice != "required") read_named_tool(fields, *choice, naming, read);
  }
  const Json& tools = read.prompt.tools;
  read.has_strict_tools = std::any_of(tools.begin(), tools.end(), is_strict);
  check_end(fields, read);
}

bool needs_call_grammar(const ChatRequest& request) {
  if (!request.parses_tool_calls) return false;
  return request.must_call || request.has_strict_tools || request.generation.grammar.has_value();
}

}  // namespace paceline::api
