// paceline batch: files of requests for a server, here or elsewhere.
#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cli/command.h"
#include "cli/server_client.h"
#include "http/client.h"
#include "system/files.h"

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMaxInput = 200ULL << 20;

struct BatchFlags {
  ServerFlags server;
  bool as_json = false;
  std::string input;
  std::string endpoint = "/v1/chat/completions";
  std::string id;
  std::string output;
  std::string errors;
};

void show(const BatchFlags& flags, const ordered_json& batch) {
  if (flags.as_json) {
    fmt::print("{}\n", batch.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    return;
  }
  const auto counts = batch.value("request_counts", ordered_json::object());
  const auto count = [&counts](const char* name) {
    const auto found = counts.find(name);
    return found != counts.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  fmt::print("{}: {}, {} of {} done, {} failed\n", text_of(batch, "id"), text_of(batch, "status"),
             count("completed"), count("total"), count("failed"));
}

/// A form with the purpose and the file; the boundary is no line of it.
http::ClientRequest upload_of(const std::string& content) {
  std::string boundary = "paceline-batch";
  while (content.find("--" + boundary) != std::string::npos) boundary += "-x";
  http::ClientRequest request{"POST", "/files", "multipart/form-data; boundary=" + boundary, ""};
  request.body = fmt::format(
      "--{0}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--{0}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"batch.jsonl\"\r\n\r\n",
      boundary);
  request.body += content;
  request.body += fmt::format("\r\n--{}--\r\n", boundary);
  return request;
}

Status submit(const BatchFlags& flags) {
  PACELINE_ASSIGN_OR_RETURN(const auto content, system::read_text_file(flags.input, kMaxInput));
  PACELINE_ASSIGN_OR_RETURN(auto client, flags.server.client());
  PACELINE_ASSIGN_OR_RETURN(const auto file, ask_json(client, upload_of(content)));
  const ordered_json body = {{"input_file_id", text_of(file, "id")},
                             {"endpoint", flags.endpoint},
                             {"completion_window", "24h"}};
  PACELINE_ASSIGN_OR_RETURN(
      const auto batch, ask_json(client, {"POST", "/batches", "application/json", body.dump()}));
  show(flags, batch);
  return {};
}

/// Ids come from a user: what is none of a URL's path stays out of it.
Result<std::string> path_of(const std::string& folder, const std::string& id) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (!id.empty() && id.find_first_not_of(kAllowed) == std::string::npos) return folder + id;
  return fail(ErrorCode::kInvalidArgument, "'{}': expected an id of letters, digits, _ and -", id);
}

Result<ordered_json> find_batch(http::Client& client, const std::string& id) {
  PACELINE_ASSIGN_OR_RETURN(auto path, path_of("/batches/", id));
  return ask_json(client, {"GET", std::move(path)});
}

Status status(const BatchFlags& flags) {
  PACELINE_ASSIGN_OR_RETURN(auto client, flags.server.client());
  PACELINE_ASSIGN_OR_RETURN(const auto batch, find_batch(client, flags.id));
  show(flags, batch);
  return {};
}

Status fetch_file(http::Client& client, const std::string& id, const std::string& target) {
  std::string content;
  if (!id.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const auto path, path_of("/files/", id));
    PACELINE_ASSIGN_OR_RETURN(content, ask(client, {"GET", path + "/content"}));
  }
  return system::write_file_atomically(target, content);
}

Status fetch(const BatchFlags& flags) {
  PACELINE_ASSIGN_OR_RETURN(auto client, flags.server.client());
  PACELINE_ASSIGN_OR_RETURN(const auto batch, find_batch(client, flags.id));
  const std::string status = text_of(batch, "status");
  if (status == "in_progress" || status == "cancelling" || status == "validating" ||
      status == "finalizing") {
    return fail(ErrorCode::kUnavailable, "{} is {}: its files come at its end", flags.id, status);
  }
  PACELINE_RETURN_IF_ERROR(fetch_file(client, text_of(batch, "output_file_id"), flags.output));
  if (!flags.errors.empty()) {
    PACELINE_RETURN_IF_ERROR(fetch_file(client, text_of(batch, "error_file_id"), flags.errors));
  }
  show(flags, batch);
  return {};
}

CLI::App* add_verb(CLI::App& batch, const std::shared_ptr<BatchFlags>& flags, const char* name,
                   const char* help) {
  CLI::App* verb = batch.add_subcommand(name, help);
  flags->server.add_to(*verb);
  verb->add_flag("--json", flags->as_json, "The batch as the server has it, in one line");
  return verb;
}

}  // namespace

void add_batch_command(CLI::App& app, Status& done) {
  const auto flags = std::make_shared<BatchFlags>();
  CLI::App* batch = app.add_subcommand("batch", "Files of requests, answered in the background");
  batch->require_subcommand(1);
  CLI::App* verb = add_verb(*batch, flags, "submit", "Upload a JSONL file and start its batch");
  verb->add_option("file", flags->input, "Lines of custom_id, method, url and body")->required();
  verb->add_option("--endpoint", flags->endpoint, "What the lines ask")->capture_default_str();
  verb->callback([flags, &done] { done = submit(*flags); });
  verb = add_verb(*batch, flags, "status", "How far a batch is");
  verb->add_option("id", flags->id, "As submit told it")->required();
  verb->callback([flags, &done] { done = status(*flags); });
  verb = add_verb(*batch, flags, "fetch", "The results of a batch that has ended");
  verb->add_option("id", flags->id, "As submit told it")->required();
  verb->add_option("--output,-o", flags->output, "For the lines that were answered")->required();
  verb->add_option("--errors", flags->errors, "For those that were not");
  verb->callback([flags, &done] { done = fetch(*flags); });
}

}  // namespace paceline::cli
