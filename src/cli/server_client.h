// The server that a command asks: its flags, and what it says.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "http/client.h"

namespace paceline::cli {

struct ServerFlags {
  std::string url = "http://127.0.0.1:8000/v1";
  std::string certificates;

  /// --url and --ca.
  void add_to(CLI::App& command);
  /// With the key of PACELINE_API_KEY. `stop` and `silence` as in http::ClientOptions.
  Result<http::Client> client(const std::atomic<bool>* stop = nullptr,
                              Duration silence = std::chrono::minutes(2)) const;
  /// Of what lies beside the API: /health, /metrics.
  Result<http::Client> root_client(const std::atomic<bool>* stop = nullptr) const;
};

/// What a server said, as its answer has it, else its status. kInvalidArgument for what the user
/// can mend, kUnavailable for the rest.
Error refusal(const http::Response& response);

/// Of a stream's event or an answer: the message in {"error": {"message"}}; empty: there is none.
std::string error_message(const nlohmann::ordered_json& json);

/// The body of a 200.
Result<std::string> ask(http::Client& client, const http::ClientRequest& request);
Result<nlohmann::ordered_json> ask_json(http::Client& client, const http::ClientRequest& request);

/// Of foreign JSON: the member where it is a string, else "".
std::string text_of(const nlohmann::ordered_json& json, const char* name);

/// Without control characters, which would act on a terminal, and at most `most` bytes.
std::string printable(std::string_view text, std::size_t most = 200);

}  // namespace paceline::cli
