// An answer as POST /v1/responses gives it: items, and the events that tell of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_delta.h"
#include "api/responses.h"

namespace paceline::api {

/// Deltas go in; out come events, numbered, and at the end the response. One that nobody streams
/// is made the same way. Lifecycle: open(), push() any number of times, then finish() or fail().
/// Thread-compatible.
class ResponseWriter {
 public:
  using Events = std::vector<Json>;

  /// `shown`: the request's fields that the response repeats. Its id is "resp_" and more, and those
  /// of items are made of it.
  ResponseWriter(ResponseHead head, Json shown)
      : head_(std::move(head)), shown_(std::move(shown)) {}

  /// response.created and response.in_progress; nothing the second time.
  Events open();
  /// `entries` belong to the text of the message.
  Events push(const AnswerDelta& delta, std::vector<TokenEntry> entries);

  struct End {
    bool is_cut = false;  ///< by max_output_tokens
    Usage usage = {};
    std::uint64_t reasoning_tokens = 0;
    std::int64_t at = 0;  ///< Unix seconds
  };
  /// Closes what is open, and ends with response.completed or response.incomplete.
  Events finish(const End& end);
  /// response.failed, whatever was said before.
  Events fail(const ApiError& error);

  bool is_reasoning() const { return open_ == Item::kReasoning; }
  /// After the end.
  const Json& response() const { return response_; }

 private:
  enum class Item { kNone, kReasoning, kMessage, kCall };

  Json response_json(const char* status) const;
  Json event(const char* type);
  /// With the place of the open item.
  Json item_event(const char* type);
  void begin(Item item, Json json);
  void begin_text(Item item);
  void begin_call(const ToolCallDelta& call);
  void add_text(Item item, const std::string& text, std::vector<TokenEntry> entries);
  void add_call(const ToolCallDelta& call);
  void close(const char* status);
  void close_text();
  void close_call();
  Json part() const;

  ResponseHead head_;
  Json shown_;
  Json output_ = Json::array();
  Json response_;
  Events events_;  ///< of the call that is under way
  Item open_ = Item::kNone;
  std::string text_ = {};  ///< of the open item: text or arguments
  Json logprobs_ = Json::array();
  std::vector<TokenEntry> waiting_ = {};  ///< whose text is not there yet
  std::uint32_t call_ = 0;
  bool has_opened_ = false;
  std::uint64_t next_number_ = 0;
};

/// With the event's name, as clients of this route expect it.
std::string named_sse_event(const Json& event);

}  // namespace paceline::api
