// libFuzzer target of requests' bodies: what is accepted is within the bounds that the rest relies
// on.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/call_grammar.h"
#include "api/chat_request.h"
#include "api/completion_request.h"
#include "api/embedding_request.h"
#include "api/response_request.h"
#include "api/responses.h"
#include "api/tool_choice.h"
#include "base/check.h"

namespace {

using namespace paceline::api;

void check_refusal(const ApiError& error) {
  PACELINE_CHECK(error.status == 400 && !error.message.empty());
  (void)to_json(error).dump(-1, ' ', false, Json::error_handler_t::strict);
}

void check_generation(const GenerationFields& fields) {
  PACELINE_CHECK(fields.choices >= 1 && fields.choices <= 16);
  PACELINE_CHECK(paceline::sampling::check(fields.sampling_spec({}, 0)).has_value());
}

void check_calls(const ChatRequest& request) {
  if (!needs_call_grammar(request)) return;
  for (const ToolFormat format :
       {ToolFormat::kHermes, ToolFormat::kLlama, ToolFormat::kMistral, ToolFormat::kPhi}) {
    CallForm form;
    form.format = format;
    form.must_call = request.must_call;
    form.name = request.named_tool;
    form.is_parallel = request.parallel_tool_calls;
    form.other = request.generation.grammar;
    const auto grammar = call_grammar(form, request.prompt.tools, nullptr);
    if (!grammar) {
      check_refusal(grammar.error());
    } else {
      PACELINE_CHECK(grammar->text.size() <= paceline::GrammarSpec::kMaxTextBytes);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  if (const auto chat = parse_chat_request(body)) {
    check_generation(chat->generation);
    PACELINE_CHECK(!chat->prompt.messages.empty());
    for (const Json& message : chat->prompt.messages) {
      PACELINE_CHECK(message["role"].is_string() && message["content"].is_string());
    }
    check_calls(*chat);
  } else {
    check_refusal(chat.error());
  }
  if (const auto completion = parse_completion_request(body)) {
    check_generation(completion->generation);
    PACELINE_CHECK(!completion->prompts.empty() && completion->generation.max_tokens.has_value());
  } else {
    check_refusal(completion.error());
  }
  if (const auto response = parse_response_request(body)) {
    check_generation(response->chat.generation);
    PACELINE_CHECK(!response->chat.prompt.messages.empty());
    (void)dump(response->shown);
    check_calls(response->chat);
  } else {
    check_refusal(response.error());
  }
  if (const auto embedding = parse_embedding_request(body)) {
    PACELINE_CHECK(!embedding->inputs.empty());
    (void)check_size(*embedding, 576);
  } else {
    check_refusal(embedding.error());
  }
  (void)parse_tokenize_request(body);
  (void)parse_detokenize_request(body);
  return 0;
}
