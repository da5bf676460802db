#include "api/chat_messages.h"

namespace paceline::api {
namespace {

constexpr std::size_t kMaxMessages = 16384;
constexpr std::size_t kMaxParts = 4096;
constexpr std::size_t kMaxToolCalls = 128;

/// The text of one part.
std::string read_part(Fields&& fields) {
  fields.require("type");
  const auto type = fields.text("type", 64);
  if (!type) return {};
  if (*type == "text" || *type == "refusal") {
    fields.require(type->c_str());
    return fields.text(type->c_str()).value_or("");
  }
  if (*type == "image_url" || *type == "input_audio" || *type == "file" || *type == "video_url") {
    fields.refuse_unsupported("type", *type + " is not offered, only text");
  } else {
    fields.refuse("type", "expected text");
  }
  return {};
}

std::string read_parts(const Json& parts, Fields& fields) {
  if (parts.empty() || parts.size() > kMaxParts) {
    fields.refuse("content", fmt::format("expected 1 to {} parts", kMaxParts));
    return {};
  }
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].is_object()) {
      fields.refuse("content", "expected parts that are objects");
      return {};
    }
    if (i > 0) text += '\n';
    text += read_part(fields.inside(parts[i], fmt::format("content[{}].", i)));
  }
  return text;
}

std::string read_content(Fields& fields) {
  const Json* content = fields.find("content");
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  if (content->is_array()) return read_parts(*content, fields);
  fields.refuse("content", "expected a string or an array of parts");
  return {};
}

Json read_tool_call(Fields&& fields) {
  Json call = Json::object();
  if (auto id = fields.text("id", 256)) call["id"] = *std::move(id);
  if (fields.has("type") && *fields.find("type") != "function") {
    fields.refuse_unsupported("type", "only calls of type function are offered");
  }
  call["type"] = "function";
  fields.require("function");
  const Json* function = fields.object("function");
  if (function == nullptr) return call;
  Fields inner = fields.inside(*function, "function.");
  inner.require("name");
  call["function"]["name"] = inner.text("name", 256).value_or("");
  call["function"]["arguments"] = read_call_arguments(inner);
  return call;
}

void read_tool_calls(Fields& fields, Json& message) {
  const Json* calls = fields.array("tool_calls", kMaxToolCalls);
  if (calls == nullptr || calls->empty()) return;
  Json read = Json::array();
  for (std::size_t i = 0; i < calls->size(); ++i) {
    if (!(*calls)[i].is_object()) return fields.refuse("tool_calls", "expected objects");
    read.push_back(read_tool_call(fields.inside((*calls)[i], fmt::format("tool_calls[{}].", i))));
  }
  message["tool_calls"] = std::move(read);
}

void read_assistant(Fields& fields, Json& message) {
  read_tool_calls(fields, message);
  if (auto refusal = fields.text("refusal"); refusal && message["content"] == "") {
    message["content"] = *std::move(refusal);
  }
  for (const char* name : {"reasoning_content", "reasoning"}) {
    if (auto text = fields.text(name)) message["reasoning_content"] = *std::move(text);
  }
  if (fields.has("function_call")) {
    fields.refuse_unsupported("function_call", "is deprecated; use tool_calls");
  }
  if (fields.has("audio")) fields.refuse_unsupported("audio", "audio is not offered");
  if (!fields.has("content") && !message.contains("tool_calls") && message["content"] == "" &&
      !message.contains("reasoning_content")) {
    fields.refuse("content", "is missing, and there are no tool_calls");
  }
}

Json read_message(Fields&& fields) {
  Json message = Json::object();
  fields.require("role");
  const auto role = fields.one_of("role", {"system", "developer", "user", "assistant", "tool"});
  message["role"] = role == "developer" ? "system" : role.value_or("");
  message["content"] = read_content(fields);
  if (auto name = fields.text("name", 256)) message["name"] = *std::move(name);
  if (role == "assistant") {
    read_assistant(fields, message);
    return message;
  }
  fields.require("content");
  if (role == "tool") {
    fields.require("tool_call_id");
    message["tool_call_id"] = fields.text("tool_call_id", 256).value_or("");
  }
  return message;
}

}  // namespace

// Clients give arguments as the JSON text that they got; templates want what it says.
Json read_call_arguments(Fields& function) {
  const Json* given = function.find("arguments");
  if (given == nullptr || given->is_object()) return given == nullptr ? Json::object() : *given;
  const auto text = function.text("arguments");
  if (!text || text->empty()) return Json::object();
  // Of the same depth bound as a body: its text was no part of the body's own nesting.
  auto parsed = parse_body(*text);
  return parsed ? *std::move(parsed) : Json(*text);
}

Json read_messages(Fields& fields) {
  Json read = Json::array();
  fields.require("messages");
  const Json* messages = fields.array("messages", kMaxMessages);
  if (messages == nullptr) return read;
  if (messages->empty()) fields.refuse("messages", "expected at least one message, got none");
  for (std::size_t i = 0; i < messages->size(); ++i) {
    if (!(*messages)[i].is_object()) {
      fields.refuse("messages", fmt::format("expected objects, but messages[{}] is none", i));
      return read;
    }
    read.push_back(read_message(fields.inside((*messages)[i], fmt::format("messages[{}].", i))));
  }
  return read;
}

}  // namespace paceline::api
