#include "cli/remote_chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "http/event_reader.h"

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxAnswer = std::size_t{64} << 20;
constexpr const char* kDim = "\x1b[2m";

/// One answer as it comes.
class AnswerStream {
 public:
  explicit AnswerStream(bool is_terminal) : is_terminal_(is_terminal) {}

  /// False: no more is wanted.
  bool add(std::string_view bytes) {
    const bool goes_on = events_.add(bytes, [this](std::string_view data) { return take(data); });
    if (!goes_on && status_ && !is_complete_) {
      status_ = fail(ErrorCode::kUnavailable, "the server: an event of more than {} bytes",
                     http::EventReader::kMaxBytes);
    }
    return goes_on;
  }

  const Status& status() const { return status_; }
  bool is_complete() const { return is_complete_; }
  std::string take_text() { return std::move(text_); }
  /// Of what is dim.
  void end() { show_as(false); }

 private:
  bool take(std::string_view data) {
    auto event = read_chat_event(data);
    if (!event) {
      status_ = fail(std::move(event).error());
      return false;
    }
    // Thoughts are not part of the answer: a pipe does not get them.
    if (is_terminal_ && !event->thought.empty()) {
      show_as(true);
      show_piece(event->thought);
    }
    if (!event->text.empty()) {
      show_as(false);
      show_piece(event->text);
    }
    text_ += event->text;
    is_complete_ = is_complete_ || event->is_last;
    if (text_.size() <= kMaxAnswer) return true;
    status_ = fail(ErrorCode::kUnavailable, "the server: an answer without an end");
    return false;
  }

  void show_as(bool is_dim) {
    if (is_dim == is_dim_) return;
    show_piece(is_dim ? kDim : "\x1b[0m\n");
    is_dim_ = is_dim;
  }

  const bool is_terminal_;
  http::EventReader events_;
  std::string text_;
  Status status_;
  bool is_complete_ = false;
  bool is_dim_ = false;
};

class RemoteConversation final : public Conversation {
 public:
  RemoteConversation(http::Client client, std::string url, std::string model, ordered_json fields,
                     std::string system)
      : client_(std::move(client)),
        url_(std::move(url)),
        model_(std::move(model)),
        fields_(std::move(fields)),
        system_(std::move(system)),
        is_terminal_(::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0) {
    reset();
  }

  std::string greeting() const override { return fmt::format("{} at {}", printable(model_), url_); }

  void reset() override {
    messages_ = ordered_json::array();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }

  Status ask(const std::string& text) override {
    messages_.push_back({{"role", "user"}, {"content", text}});
    auto answer = this->answer();
    if (!answer) {
      messages_.erase(messages_.size() - 1);
      return fail(std::move(answer).error());
    }
    messages_.push_back({{"role", "assistant"}, {"content", *std::move(answer)}});
    return {};
  }

  /// Who types may try again when the server is back; a pipe's next line would meet the same.
  bool may_go_on(const Error& error) const override {
    return is_terminal_ || error.code() == ErrorCode::kInvalidArgument;
  }

 private:
  Result<std::string> answer() {
    ordered_json body = {{"model", model_}, {"messages", messages_}, {"stream", true}};
    body.update(fields_);
    const http::ClientRequest request = {
        "POST", "/chat/completions", "application/json",
        body.dump(-1, ' ', false, ordered_json::error_handler_t::replace)};
    AnswerStream stream(is_terminal_);
    const auto response =
        client_.ask(request, [&stream](std::string_view bytes) { return stream.add(bytes); });
    const bool was_stopped = interrupt_flag().load();
    stream.end();
    if (!was_stopped) {
      const Status outcome = outcome_of(response, stream);
      if (!outcome) {
        if (response) end_answer(false);
        return fail(outcome.error());
      }
    }
    end_answer(was_stopped);
    return stream.take_text();
  }

  static Status outcome_of(const Result<http::Response>& response, const AnswerStream& stream) {
    if (!stream.status()) return stream.status();
    if (!response) return fail(response.error());
    if (response->status != 200) return fail(refusal(*response));
    if (stream.is_complete()) return {};
    return fail(ErrorCode::kUnavailable, "the server: the answer was cut");
  }

  http::Client client_;
  const std::string url_;
  const std::string model_;
  const ordered_json fields_;
  const std::string system_;
  const bool is_terminal_;
  ordered_json messages_;
};

}  // namespace

Result<ChatEvent> read_chat_event(std::string_view data) {
  ChatEvent event;
  event.is_last = data == "[DONE]";
  if (event.is_last) return event;
  const auto json = ordered_json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return fail(ErrorCode::kUnavailable, "the server: '{}': expected an event of JSON",
                printable(data, 80));
  }
  if (const std::string message = error_message(json); !message.empty()) {
    return fail(ErrorCode::kUnavailable, "the server: {}", message);
  }
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->empty()) return event;
  const ordered_json& choice = choices->front();
  if (!choice.is_object()) return event;
  event.is_last = !text_of(choice, "finish_reason").empty();
  const auto delta = choice.find("delta");
  if (delta == choice.end()) return event;
  event.text = text_of(*delta, "content");
  event.thought = text_of(*delta, "reasoning_content");
  return event;
}

Result<std::string> first_model(const ordered_json& models) {
  const auto data = models.find("data");
  if (data != models.end() && data->is_array()) {
    for (const ordered_json& model : *data) {
      const std::string status = text_of(model, "status");
      const std::string id = text_of(model, "id");
      if (!id.empty() && (status.empty() || status == "ready")) return id;
    }
  }
  return fail(ErrorCode::kUnavailable, "the server has no model that is ready; name one: --model");
}

Status chat_with_server(const ServerFlags& server, const std::string& model,
                        const SamplingFlags& sampling, const std::string& system) {
  PACELINE_ASSIGN_OR_RETURN(const auto fields, sampling.request_fields());
  PACELINE_ASSIGN_OR_RETURN(auto client, server.client(&interrupt_flag()));
  std::string name = model;
  if (name.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const auto models, ask_json(client, {"GET", "/models"}));
    PACELINE_ASSIGN_OR_RETURN(name, first_model(models));
  }
  RemoteConversation conversation(std::move(client), server.url, std::move(name), fields, system);
  return converse(conversation);
}

}  // namespace paceline::cli
