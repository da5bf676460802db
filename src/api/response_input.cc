#include "api/response_input.h"

#include <utility>

#include "api/chat_messages.h"

namespace paceline::api {
namespace {

constexpr std::size_t kMaxItems = 16384;
constexpr std::size_t kMaxParts = 4096;

bool is_text_part(std::string_view type) {
  return type == "input_text" || type == "output_text" || type == "text" ||
         type == "summary_text" || type == "reasoning_text";
}

std::string read_part(Fields&& fields) {
  fields.require("type");
  const auto type = fields.text("type", 64);
  if (!type) return {};
  const char* name = *type == "refusal" ? "refusal" : "text";
  if (*type == "refusal" || is_text_part(*type)) {
    fields.require(name);
    return fields.text(name).value_or("");
  }
  if (*type == "input_image" || *type == "input_file" || *type == "input_audio") {
    fields.refuse_unsupported("type", *type + " is not offered, only text");
  } else {
    fields.refuse("type", "expected input_text or output_text");
  }
  return {};
}

/// A string, or parts of text joined by lines.
std::string read_text(Fields& fields, const char* name) {
  const Json* content = fields.find(name);
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array() || content->size() > kMaxParts) {
    fields.refuse(name,
                  fmt::format("expected a string or an array of at most {} parts", kMaxParts));
    return {};
  }
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    if (!(*content)[i].is_object()) {
      fields.refuse(name, "expected parts that are objects");
      return {};
    }
    if (i > 0) text += '\n';
    text += read_part(fields.inside((*content)[i], fmt::format("{}[{}].", name, i)));
  }
  return text;
}

/// The assistant's turn that is being gathered: items of one turn make one message.
Json& assistant_turn(Json& messages) {
  if (messages.empty() || messages.back()["role"] != "assistant") {
    messages.push_back({{"role", "assistant"}, {"content", ""}});
  }
  return messages.back();
}

void read_message(Fields& fields, Json& messages) {
  fields.require("role");
  const auto role = fields.one_of("role", {"system", "developer", "user", "assistant"});
  fields.require("content");
  std::string text = read_text(fields, "content");
  if (role != "assistant") {
    messages.push_back(
        {{"role", role == "user" ? "user" : "system"}, {"content", std::move(text)}});
    return;
  }
  Json& turn = assistant_turn(messages);
  // A second message of the assistant is one of its own.
  if (turn["content"] == "" && !turn.contains("tool_calls")) {
    turn["content"] = std::move(text);
  } else {
    messages.push_back({{"role", "assistant"}, {"content", std::move(text)}});
  }
}

void read_call(Fields& fields, Json& messages) {
  for (const char* name : {"call_id", "name", "arguments"}) fields.require(name);
  Json call = {{"id", fields.text("call_id", 256).value_or("")}, {"type", "function"}};
  call["function"]["name"] = fields.text("name", 256).value_or("");
  call["function"]["arguments"] = read_call_arguments(fields);
  Json& turn = assistant_turn(messages);
  if (!turn.contains("tool_calls")) turn["tool_calls"] = Json::array();
  turn["tool_calls"].push_back(std::move(call));
}

void read_call_output(Fields& fields, Json& messages) {
  for (const char* name : {"call_id", "output"}) fields.require(name);
  std::string id = fields.text("call_id", 256).value_or("");
  messages.push_back({{"role", "tool"},
                      {"content", read_text(fields, "output")},
                      {"tool_call_id", std::move(id)}});
}

void read_reasoning(Fields& fields, Json& messages) {
  std::string text = read_text(fields, "content");
  if (text.empty()) text = read_text(fields, "summary");
  // Encrypted by somebody else, or empty: there is nothing to show to the model.
  if (text.empty()) return;
  messages.push_back(
      {{"role", "assistant"}, {"content", ""}, {"reasoning_content", std::move(text)}});
}

void read_item(Fields&& fields, Json& messages) {
  const std::string type = fields.text("type", 64).value_or("message");
  if (type == "message") return read_message(fields, messages);
  if (type == "function_call") return read_call(fields, messages);
  if (type == "function_call_output") return read_call_output(fields, messages);
  if (type == "reasoning") return read_reasoning(fields, messages);
  fields.refuse_unsupported(
      "type", type +
                  " is not offered, only message, function_call, function_call_output and "
                  "reasoning");
}

}  // namespace

Json read_response_input(Fields& fields) {
  Json messages = Json::array();
  fields.require("input");
  if (auto instructions = fields.text("instructions"); instructions && !instructions->empty()) {
    messages.push_back({{"role", "system"}, {"content", *std::move(instructions)}});
  }
  const Json* input = fields.find("input");
  if (input == nullptr) return messages;
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
    return messages;
  }
  if (!input->is_array() || input->empty() || input->size() > kMaxItems) {
    fields.refuse("input",
                  fmt::format("expected a string or an array of 1 to {} items", kMaxItems));
    return messages;
  }
  for (std::size_t i = 0; i < input->size(); ++i) {
    if (!(*input)[i].is_object()) {
      fields.refuse("input", fmt::format("expected objects, but input[{}] is none", i));
      return messages;
    }
    read_item(fields.inside((*input)[i], fmt::format("input[{}].", i)), messages);
  }
  if (messages.empty()) fields.refuse("input", "expected a message, got reasoning alone");
  return messages;
}

}  // namespace paceline::api
