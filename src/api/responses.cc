#include "api/responses.h"

#include <utility>

namespace paceline::api {
namespace {

Json head_json(const ResponseHead& head, const char* object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

Json tool_call(const ToolCallDelta& call, bool is_whole) {
  Json json = Json::object();
  if (!is_whole) json["index"] = call.index;
  if (!call.id.empty()) {
    json["id"] = call.id;
    json["type"] = "function";
  }
  Json function = Json::object();
  if (!call.name.empty()) function["name"] = call.name;
  function["arguments"] = call.arguments;
  json["function"] = std::move(function);
  return json;
}

Json tool_calls(const std::vector<ToolCallDelta>& calls, bool is_whole) {
  Json list = Json::array();
  for (const ToolCallDelta& call : calls) list.push_back(tool_call(call, is_whole));
  return list;
}

Json reason_or_null(const std::string& reason) { return reason.empty() ? Json() : Json(reason); }

Json message_json(const AnswerDelta& message) {
  Json json = {{"role", "assistant"}, {"content", message.content}, {"refusal", nullptr}};
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  if (message.tool_calls.empty()) return json;
  if (message.content.empty()) json["content"] = nullptr;
  json["tool_calls"] = tool_calls(message.tool_calls, true);
  return json;
}

Json delta_json(const ChatChunk& chunk) {
  const AnswerDelta& delta = chunk.delta;
  Json json = Json::object();
  if (chunk.opens) json["role"] = "assistant";
  // The first has content, which clients add to, unless the message is something else.
  const bool is_other = !delta.reasoning.empty() || !delta.tool_calls.empty();
  if (!delta.content.empty() || (chunk.opens && !is_other)) json["content"] = delta.content;
  if (!delta.reasoning.empty()) json["reasoning_content"] = delta.reasoning;
  if (!delta.tool_calls.empty()) json["tool_calls"] = tool_calls(delta.tool_calls, false);
  return json;
}

Json chunk_json(const ResponseHead& head, const char* object, Json choice, bool has_usage) {
  Json json = head_json(head, object);
  json["choices"] = Json::array({std::move(choice)});
  if (has_usage) json["usage"] = nullptr;
  return json;
}

}  // namespace

void AnswerDelta::append(const AnswerDelta& later) {
  content += later.content;
  reasoning += later.reasoning;
  for (const ToolCallDelta& call : later.tool_calls) {
    if (!tool_calls.empty() && tool_calls.back().index == call.index) {
      tool_calls.back().arguments += call.arguments;
    } else {
      tool_calls.push_back(call);
    }
  }
}

Json to_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json chat_completion(const ResponseHead& head, std::span<const ChatAnswer> answers,
                     const Usage& usage) {
  Json json = head_json(head, "chat.completion");
  json["choices"] = Json::array();
  for (const ChatAnswer& answer : answers) {
    json["choices"].push_back(
        {{"index", answer.index},
         {"message", message_json(answer.message)},
         {"logprobs", answer.logprobs ? chat_logprobs(*answer.logprobs) : Json()},
         {"finish_reason", answer.finish_reason}});
  }
  json["usage"] = to_json(usage);
  return json;
}

Json text_completion(const ResponseHead& head, std::span<const CompletionAnswer> answers,
                     const Usage& usage) {
  Json json = head_json(head, "text_completion");
  json["choices"] = Json::array();
  for (const CompletionAnswer& answer : answers) {
    Json logprobs;
    if (answer.logprobs) {
      logprobs = completion_logprobs(*answer.logprobs, 0, answer.has_top_logprobs);
    }
    json["choices"].push_back({{"index", answer.index},
                               {"text", answer.text},
                               {"logprobs", std::move(logprobs)},
                               {"finish_reason", answer.finish_reason}});
  }
  json["usage"] = to_json(usage);
  return json;
}

Json chat_chunk(const ResponseHead& head, const ChatChunk& chunk, bool has_usage) {
  Json choice = {{"index", chunk.index},
                 {"delta", delta_json(chunk)},
                 {"logprobs", chunk.logprobs ? chat_logprobs(*chunk.logprobs) : Json()},
                 {"finish_reason", reason_or_null(chunk.finish_reason)}};
  return chunk_json(head, "chat.completion.chunk", std::move(choice), has_usage);
}

Json completion_chunk(const ResponseHead& head, const CompletionChunk& chunk, bool has_usage) {
  Json logprobs;
  if (chunk.logprobs) {
    logprobs = completion_logprobs(*chunk.logprobs, chunk.text_offset, chunk.has_top_logprobs);
  }
  Json choice = {{"index", chunk.index},
                 {"text", chunk.text},
                 {"logprobs", std::move(logprobs)},
                 {"finish_reason", reason_or_null(chunk.finish_reason)}};
  return chunk_json(head, "text_completion", std::move(choice), has_usage);
}

Json usage_chunk(const ResponseHead& head, bool is_chat, const Usage& usage) {
  Json json = head_json(head, is_chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = Json::array();
  json["usage"] = to_json(usage);
  return json;
}

Json model_object(const ModelCard& card) {
  Json json = {
      {"id", card.id}, {"object", "model"}, {"created", card.created}, {"owned_by", "paceline"}};
  if (card.context_tokens > 0) json["max_model_len"] = card.context_tokens;
  json["status"] = card.status;
  if (card.stages > 0) json["stages"] = card.stages;
  return json;
}

Json model_list(std::span<const ModelCard> cards) {
  Json list = Json::array();
  for (const ModelCard& card : cards) list.push_back(model_object(card));
  return {{"object", "list"}, {"data", std::move(list)}};
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string sse_event(const Json& json) { return "data: " + dump(json) + "\n\n"; }

}  // namespace paceline::api
