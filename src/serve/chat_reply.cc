#include "serve/chat_reply.h"

#include <iterator>
#include <utility>

namespace paceline::serve {

ChatReply::ChatReply(Parts parts, const api::AnswerParserOptions& parsing)
    : Reply(std::move(parts)) {
  for (std::size_t i = 0; i < answers(); ++i) {
    api::AnswerParserOptions own = parsing;
    own.call_id += fmt::format("{:02}", i);  // calls of two answers are two calls
    choices_.push_back({api::AnswerParser(std::move(own)),
                        ChoiceTokens(model().tokenizer(), asked().skip_special_tokens),
                        {}});
    choices_.back().answer.index = static_cast<std::uint32_t>(i);
    if (wants_logprobs()) choices_.back().answer.logprobs.emplace();
  }
}

void ChatReply::add(std::size_t answer, std::span<const wire::Sample> samples,
                    std::string_view text) {
  Choice& choice = choices_[answer];
  std::vector<api::TokenEntry> entries;
  if (wants_logprobs()) entries = choice.tokens.push(samples, text);
  open(answer);
  give(answer, choice.parser.push(text), std::move(entries));
}

/// At the first token, even where it shows nothing yet.
void ChatReply::open(std::size_t answer) {
  Choice& choice = choices_[answer];
  if (!asked().stream || std::exchange(choice.has_opened, true)) return;
  api::ChatChunk chunk;
  chunk.index = choice.answer.index;
  chunk.opens = true;
  send(api::chat_chunk(head(), chunk, asked().include_usage));
}

void ChatReply::give(std::size_t answer, api::AnswerDelta delta,
                     std::vector<api::TokenEntry> entries) {
  if (delta.empty() && entries.empty()) return;
  api::ChatAnswer& whole = choices_[answer].answer;
  if (!asked().stream) {
    whole.message.append(delta);
    if (!wants_logprobs()) return;
    std::move(entries.begin(), entries.end(), std::back_inserter(*whole.logprobs));
    return;
  }
  api::ChatChunk chunk;
  chunk.index = whole.index;
  chunk.delta = std::move(delta);
  if (wants_logprobs()) chunk.logprobs = std::move(entries);
  send(api::chat_chunk(head(), chunk, asked().include_usage));
}

void ChatReply::finish(std::size_t answer, const coordinator::Generation& generation) {
  Choice& choice = choices_[answer];
  std::vector<api::TokenEntry> entries;
  if (wants_logprobs()) entries = choice.tokens.finish(end_of(generation));
  open(answer);
  give(answer, choice.parser.finish(), std::move(entries));
  const bool is_call = choice.parser.has_tool_calls() &&
                       generation.finish_reason == coordinator::FinishReason::kStop;
  choice.answer.finish_reason =
      is_call ? "tool_calls" : std::string(to_string(generation.finish_reason));
  if (!asked().stream) return;
  api::ChatChunk chunk;
  chunk.index = choice.answer.index;
  chunk.finish_reason = choice.answer.finish_reason;
  send(api::chat_chunk(head(), chunk, asked().include_usage));
}

std::string ChatReply::body(const api::Usage& usage) {
  std::vector<api::ChatAnswer> answers;
  for (Choice& choice : choices_) answers.push_back(std::move(choice.answer));
  return api::dump(api::chat_completion(head(), answers, usage));
}

}  // namespace paceline::serve
