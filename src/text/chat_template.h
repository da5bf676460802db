// Chat messages to the prompt a model was trained on, by its Jinja template.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "base/error.h"

struct PacelineTemplate;

namespace paceline::text {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", ...
  std::string content;
};

struct ChatTemplateOptions {
  bool add_generation_prompt = true;  ///< end with the opening of the assistant's turn
  std::string bos_token = {};
  std::string eos_token = {};
  std::string extra_variables_json = {};  ///< a JSON object, e.g. {"tools": [...]}; empty: none
};

/// A parsed template with the settings of Hugging Face's apply_chat_template: trimmed blocks,
/// Python's string methods, raise_exception, strftime_now, tojson as Python spells it.
/// Immutable; move-only; thread-safe.
class ChatTemplate {
 public:
  /// kInvalidArgument with the line where `source` is no Jinja.
  static Result<ChatTemplate> parse(const std::string& source);

  /// kInvalidArgument with the template's own message where it raises one, or where it does not
  /// end within bounds of steps and output. Bytes that are no UTF-8 become U+FFFD.
  Result<std::string> render(std::span<const ChatMessage> messages,
                             const ChatTemplateOptions& options) const;
  /// The same with messages as an API has them: an array of objects, with tool calls, names and
  /// whatever else a template looks at.
  Result<std::string> render_messages(const nlohmann::ordered_json& messages,
                                      const ChatTemplateOptions& options) const;

 private:
  struct Free {
    void operator()(PacelineTemplate* handle) const;
  };
  explicit ChatTemplate(PacelineTemplate* handle) : handle_(handle) {}

  std::unique_ptr<PacelineTemplate, Free> handle_;
};

}  // namespace paceline::text
