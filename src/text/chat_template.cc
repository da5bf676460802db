#include "text/chat_template.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "text/border.h"

namespace paceline::text {
namespace {

using Json = nlohmann::ordered_json;

/// Everything but the caller's extra variables, which the crate reads itself.
Json variables_from(const Json& messages, const ChatTemplateOptions& options) {
  return Json{{"messages", messages},
              {"add_generation_prompt", options.add_generation_prompt},
              {"bos_token", options.bos_token},
              {"eos_token", options.eos_token}};
}

}  // namespace

void ChatTemplate::Free::operator()(PacelineTemplate* handle) const {
  paceline_template_free(handle);
}

Result<ChatTemplate> ChatTemplate::parse(const std::string& source) {
  OwnedText error;
  PacelineTemplate* handle = nullptr;
  const auto status = status_from(
      paceline_template_new(source.data(), source.size(), &handle, error.receive()), error);
  if (!status) return fail(status.error().with_context("chat template"));
  return ChatTemplate(handle);
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages,
                                         const ChatTemplateOptions& options) const {
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    list.push_back(Json{{"role", message.role}, {"content", message.content}});
  }
  return render_messages(list, options);
}

Result<std::string> ChatTemplate::render_messages(const Json& messages,
                                                  const ChatTemplateOptions& options) const {
  const std::string json =
      variables_from(messages, options)
          .dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  const std::string_view extra =
      options.extra_variables_json.empty() ? "{}" : std::string_view(options.extra_variables_json);
  OwnedText error;
  OwnedText text;
  const auto status =
      status_from(paceline_template_render(handle_.get(), json.data(), json.size(), extra.data(),
                                           extra.size(), text.receive(), error.receive()),
                  error);
  if (!status) return fail(status.error().with_context("chat template"));
  return std::string(text.view());
}

}  // namespace paceline::text
