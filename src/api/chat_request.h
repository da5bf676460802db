// The body of POST /v1/chat/completions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/fields.h"
#include "api/generation_fields.h"

namespace paceline::api {

/// What a model's template is rendered with.
struct ChatPrompt {
  /// As templates expect them: the content a string (text parts joined by lines, "" for null), a
  /// tool call's arguments an object, "developer" spelled "system".
  Json messages = Json::array();
  Json tools = Json::array();  ///< empty with tool_choice none
  /// chat_template_kwargs, and reasoning_effort where it is given.
  Json variables = Json::object();
  bool add_generation_prompt = true;
  /// The answer goes on in the last message, which is the assistant's and has text.
  bool continue_final_message = false;
  bool add_special_tokens = false;
};

struct ChatRequest {
  GenerationFields generation;
  ChatPrompt prompt;
  bool parses_tool_calls = false;  ///< tools are given and may be called
  bool must_call = false;          ///< tool_choice required, or a named tool
  std::string named_tool;          ///< that alone may be called; empty: any
  bool has_strict_tools = false;   ///< arguments must hold their schemas
  bool parallel_tool_calls = true;
  bool separates_reasoning = true;  ///< else <think> stays in the content
};

/// 400 with the field at fault, as every client's schema names it.
Parsed<ChatRequest> parse_chat_request(std::string_view body);

/// Letters, digits, underscores, dots and dashes, 64 at most.
bool is_function_name(std::string_view name);

/// Messages, tools and what belongs to the template; also of POST /tokenize.
ChatPrompt read_chat_prompt(Fields& fields);

}  // namespace paceline::api
