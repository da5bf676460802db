// Which tools an answer may or must call: tool_choice, and what follows of strict tools.
#pragma once

#include "api/chat_request.h"

namespace paceline::api {

/// A chat names a tool as {"type", "function": {"name"}}, a response as {"type", "name"}.
enum class NamedTool { kInFunction, kFlat };

/// Reads tool_choice and parallel_tool_calls, once tools and generation are read. With tool_choice
/// none the template sees no tools.
void read_tool_choice(Fields& fields, NamedTool naming, ChatRequest& read);

/// Whether the answer is held to a grammar of calls.
bool needs_call_grammar(const ChatRequest& request);

}  // namespace paceline::api
