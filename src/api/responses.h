// Bodies of answers, and of the events of streams.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_delta.h"
#include "api/fields.h"
#include "api/token_logprobs.h"

namespace paceline::api {

/// What all of a request's answers and chunks begin with.
struct ResponseHead {
  std::string id;
  std::int64_t created = 0;  ///< Unix seconds
  std::string model;
};

struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t cached_tokens = 0;  ///< of the prompt, found in the KV cache
};

Json to_json(const Usage& usage);

struct ChatAnswer {
  std::uint32_t index = 0;
  AnswerDelta message = {};  ///< all of it; tool calls whole
  std::string finish_reason = {};
  std::optional<std::vector<TokenEntry>> logprobs = {};
};

struct CompletionAnswer {
  std::uint32_t index = 0;
  std::string text = {};
  std::string finish_reason = {};
  std::optional<std::vector<TokenEntry>> logprobs = {};
  bool has_top_logprobs = false;
};

Json chat_completion(const ResponseHead& head, std::span<const ChatAnswer> answers,
                     const Usage& usage);
Json text_completion(const ResponseHead& head, std::span<const CompletionAnswer> answers,
                     const Usage& usage);

/// One event's choice. An empty finish reason: it is not the last of its answer.
struct ChatChunk {
  std::uint32_t index = 0;
  bool opens = false;  ///< the first of its answer: with the role
  AnswerDelta delta = {};
  std::optional<std::vector<TokenEntry>> logprobs = {};
  std::string finish_reason = {};
};

struct CompletionChunk {
  std::uint32_t index = 0;
  std::string text = {};
  std::optional<std::vector<TokenEntry>> logprobs = {};
  bool has_top_logprobs = false;
  std::size_t text_offset = 0;
  std::string finish_reason = {};
};

/// `has_usage`: the stream ends with a chunk of counts, and all others say null.
Json chat_chunk(const ResponseHead& head, const ChatChunk& chunk, bool has_usage);
Json completion_chunk(const ResponseHead& head, const CompletionChunk& chunk, bool has_usage);
/// Without choices; `object` as the other chunks have it.
Json usage_chunk(const ResponseHead& head, bool is_chat, const Usage& usage);

struct ModelCard {
  std::string id;
  std::int64_t created = 0;
  std::uint32_t context_tokens = 0;  ///< 0: not known, and not shown
  std::string status = "ready";
  std::uint32_t stages = 0;  ///< 0: not known, and not shown
};
Json model_object(const ModelCard& card);
Json model_list(std::span<const ModelCard> cards);

/// As bytes; what is no UTF-8 becomes U+FFFD.
std::string dump(const Json& json);

/// An event of a stream.
std::string sse_event(const Json& json);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
/// A comment, which clients pass over.
inline constexpr std::string_view kSsePing = ": ping\n\n";

}  // namespace paceline::api
