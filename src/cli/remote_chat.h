// A conversation with a server that speaks OpenAI's API.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/sampling_flags.h"
#include "cli/server_client.h"

namespace paceline::cli {

/// An empty `model` is the first that the server lists. The history is kept here and sent whole.
Status chat_with_server(const ServerFlags& server, const std::string& model,
                        const SamplingFlags& sampling, const std::string& system);

/// What a stream's event says. Foreign bytes: anything may be in it.
struct ChatEvent {
  std::string text;
  std::string thought;   ///< reasoning_content
  bool is_last = false;  ///< has a finish reason, or is [DONE]
};
/// kUnavailable for an error event; what is no JSON is refused with its begin.
Result<ChatEvent> read_chat_event(std::string_view data);

/// The first model that answers, by the answer of /models.
Result<std::string> first_model(const nlohmann::ordered_json& models);

}  // namespace paceline::cli
