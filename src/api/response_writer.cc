#include "api/response_writer.h"

#include <iterator>
#include <utility>

namespace paceline::api {
namespace {

/// What every response says and this server has one answer to.
Json fixed_fields() {
  return {{"background", false},
          {"max_tool_calls", nullptr},
          {"previous_response_id", nullptr},
          {"service_tier", "default"},
          {"store", false},
          {"truncation", "disabled"}};
}

Json usage_json(const ResponseWriter::End& end) {
  const Usage& usage = end.usage;
  return {
      {"input_tokens", usage.prompt_tokens},
      {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details", {{"reasoning_tokens", end.reasoning_tokens}}},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

std::string named_sse_event(const Json& event) {
  return "event: " + event["type"].get<std::string>() + "\n" + sse_event(event);
}

Json ResponseWriter::response_json(const char* status) const {
  Json json = {{"id", head_.id},
               {"object", "response"},
               {"created_at", head_.created},
               {"status", status},
               {"completed_at", nullptr},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", head_.model},
               {"output", output_},
               {"usage", nullptr}};
  json.update(shown_);
  json.update(fixed_fields());
  return json;
}

Json ResponseWriter::event(const char* type) {
  return {{"type", type}, {"sequence_number", next_number_++}};
}

Json ResponseWriter::item_event(const char* type) {
  Json json = event(type);
  json["item_id"] = output_.back()["id"];
  json["output_index"] = output_.size() - 1;
  if (open_ != Item::kCall) json["content_index"] = 0;
  return json;
}

ResponseWriter::Events ResponseWriter::open() {
  if (std::exchange(has_opened_, true)) return {};
  for (const char* type : {"response.created", "response.in_progress"}) {
    Json json = event(type);
    json["response"] = response_json("in_progress");
    events_.push_back(std::move(json));
  }
  return std::exchange(events_, {});
}

ResponseWriter::Events ResponseWriter::push(const AnswerDelta& delta,
                                            std::vector<TokenEntry> entries) {
  std::move(entries.begin(), entries.end(), std::back_inserter(waiting_));
  // What is thought or called has no place for log-probabilities.
  if (!delta.reasoning.empty()) {
    waiting_.clear();
    add_text(Item::kReasoning, delta.reasoning, {});
  }
  if (!delta.content.empty()) {
    add_text(Item::kMessage, delta.content, std::exchange(waiting_, {}));
  }
  for (const ToolCallDelta& call : delta.tool_calls) {
    waiting_.clear();
    add_call(call);
  }
  return std::exchange(events_, {});
}

void ResponseWriter::begin(Item item, Json json) {
  close("completed");
  open_ = item;
  text_.clear();
  logprobs_ = Json::array();
  output_.push_back(std::move(json));
  Json added = event("response.output_item.added");
  added["output_index"] = output_.size() - 1;
  added["item"] = output_.back();
  events_.push_back(std::move(added));
}

void ResponseWriter::begin_text(Item item) {
  const std::string number = fmt::format("{}{:02}", head_.id.substr(5), output_.size());
  if (item == Item::kReasoning) {
    begin(item, {{"id", "rs_" + number},
                 {"type", "reasoning"},
                 {"status", "in_progress"},
                 {"summary", Json::array()},
                 {"content", Json::array()}});
  } else {
    begin(item, {{"id", "msg_" + number},
                 {"type", "message"},
                 {"status", "in_progress"},
                 {"role", "assistant"},
                 {"content", Json::array()}});
  }
  Json json = item_event("response.content_part.added");
  json["part"] = part();
  events_.push_back(std::move(json));
}

void ResponseWriter::begin_call(const ToolCallDelta& call) {
  begin(Item::kCall, {{"id", fmt::format("fc_{}{:02}", head_.id.substr(5), output_.size())},
                      {"type", "function_call"},
                      {"status", "in_progress"},
                      {"call_id", call.id},
                      {"name", call.name},
                      {"arguments", ""}});
  call_ = call.index;
}

Json ResponseWriter::part() const {
  if (open_ == Item::kReasoning) return {{"type", "reasoning_text"}, {"text", text_}};
  return {{"type", "output_text"},
          {"annotations", Json::array()},
          {"logprobs", logprobs_},
          {"text", text_}};
}

void ResponseWriter::add_text(Item item, const std::string& text, std::vector<TokenEntry> entries) {
  if (open_ != item) begin_text(item);
  text_ += text;
  const bool is_message = item == Item::kMessage;
  Json json =
      item_event(is_message ? "response.output_text.delta" : "response.reasoning_text.delta");
  json["delta"] = text;
  if (is_message) {
    json["logprobs"] = chat_logprobs(entries)["content"];
    for (const Json& entry : json["logprobs"]) logprobs_.push_back(entry);
  }
  events_.push_back(std::move(json));
}

void ResponseWriter::add_call(const ToolCallDelta& call) {
  if (open_ != Item::kCall || call_ != call.index) begin_call(call);
  if (call.arguments.empty()) return;
  text_ += call.arguments;
  Json json = item_event("response.function_call_arguments.delta");
  json["delta"] = call.arguments;
  events_.push_back(std::move(json));
}

void ResponseWriter::close_text() {
  const bool is_message = open_ == Item::kMessage;
  if (is_message && !waiting_.empty()) {
    for (const Json& entry : chat_logprobs(waiting_)["content"]) logprobs_.push_back(entry);
    waiting_.clear();
  }
  Json done = item_event(is_message ? "response.output_text.done" : "response.reasoning_text.done");
  done["text"] = text_;
  if (is_message) done["logprobs"] = logprobs_;
  events_.push_back(std::move(done));
  Json ended = item_event("response.content_part.done");
  ended["part"] = part();
  events_.push_back(std::move(ended));
  output_.back()["content"].push_back(part());
}

void ResponseWriter::close_call() {
  Json done = item_event("response.function_call_arguments.done");
  done["name"] = output_.back()["name"];
  done["arguments"] = text_;
  events_.push_back(std::move(done));
  output_.back()["arguments"] = text_;
}

void ResponseWriter::close(const char* status) {
  if (open_ == Item::kNone) return;
  if (open_ == Item::kCall) {
    close_call();
  } else {
    close_text();
  }
  output_.back()["status"] = status;
  Json done = event("response.output_item.done");
  done["output_index"] = output_.size() - 1;
  done["item"] = output_.back();
  events_.push_back(std::move(done));
  open_ = Item::kNone;
}

ResponseWriter::Events ResponseWriter::finish(const End& end) {
  // Nothing was said: that is a message, too.
  if (output_.empty()) begin_text(Item::kMessage);
  close(end.is_cut ? "incomplete" : "completed");
  response_ = response_json(end.is_cut ? "incomplete" : "completed");
  response_["usage"] = usage_json(end);
  if (end.is_cut) {
    response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  } else {
    response_["completed_at"] = end.at;
  }
  Json json = event(end.is_cut ? "response.incomplete" : "response.completed");
  json["response"] = response_;
  events_.push_back(std::move(json));
  return std::exchange(events_, {});
}

ResponseWriter::Events ResponseWriter::fail(const ApiError& error) {
  close("incomplete");
  response_ = response_json("failed");
  response_["error"] = {{"code", error.status == 429 ? "rate_limit_exceeded" : "server_error"},
                        {"message", error.message}};
  Json json = event("response.failed");
  json["response"] = response_;
  events_.push_back(std::move(json));
  return std::exchange(events_, {});
}

}  // namespace paceline::api
