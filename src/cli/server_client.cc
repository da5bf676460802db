#include "cli/server_client.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

Result<http::Client> make_client(const std::string& url, http::ClientOptions options) {
  // Not a flag: what is on a command line, others on the machine can read.
  if (const char* key = std::getenv("PACELINE_API_KEY")) options.api_key = key;
  return http::Client::make(url, std::move(options));
}

}  // namespace

void ServerFlags::add_to(CLI::App& command) {
  command
      .add_option("--url", url,
                  "The server's base URL; its key is in the variable PACELINE_API_KEY")
      ->capture_default_str();
  command.add_option("--ca", certificates, "PEM certificates to trust beside the system's")
      ->check(CLI::ExistingFile);
}

Result<http::Client> ServerFlags::client(const std::atomic<bool>* stop, Duration silence) const {
  http::ClientOptions options;
  options.certificates = certificates;
  options.silence = silence;
  options.stop = stop;
  return make_client(url, std::move(options));
}

Result<http::Client> ServerFlags::root_client(const std::atomic<bool>* stop) const {
  constexpr std::string_view kVersion = "/v1";
  std::string root = url;
  while (root.ends_with('/')) root.pop_back();
  if (root.ends_with(kVersion)) root.resize(root.size() - kVersion.size());
  http::ClientOptions options;
  options.certificates = certificates;
  options.stop = stop;
  return make_client(root, std::move(options));
}

std::string error_message(const ordered_json& json) {
  if (!json.is_object()) return {};
  const auto error = json.find("error");
  if (error == json.end() || error->is_null()) return {};
  if (error->is_string()) return printable(error->get<std::string>(), 2000);
  const std::string message = printable(text_of(*error, "message"), 2000);
  return message.empty() ? "an error without a message" : message;
}

Error refusal(const http::Response& response) {
  const auto json = ordered_json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  std::string message = error_message(json);
  if (message.empty()) message = fmt::format("status {}", response.status);
  const bool is_users = response.status >= 400 && response.status < 500;
  return Error(is_users ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable,
               "the server: " + message);
}

Result<std::string> ask(http::Client& client, const http::ClientRequest& request) {
  PACELINE_ASSIGN_OR_RETURN(auto response, client.ask(request));
  if (response.status != 200) return fail(refusal(response));
  return std::move(response.body);
}

Result<ordered_json> ask_json(http::Client& client, const http::ClientRequest& request) {
  PACELINE_ASSIGN_OR_RETURN(const auto body, ask(client, request));
  auto json = ordered_json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return fail(ErrorCode::kUnavailable, "the server: expected an object of JSON");
}

std::string text_of(const ordered_json& json, const char* name) {
  if (!json.is_object()) return {};
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string printable(std::string_view text, std::size_t most) {
  std::string shown;
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte < ' ' || byte == 0x7F ? '?' : c;
  }
  return shown;
}

}  // namespace paceline::cli
