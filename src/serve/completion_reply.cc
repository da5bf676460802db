#include "serve/completion_reply.h"

#include <iterator>
#include <utility>

namespace paceline::serve {
namespace {

void add_all(std::vector<api::TokenEntry>&& from, std::vector<api::TokenEntry>& to) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

}  // namespace

CompletionReply::CompletionReply(Parts parts, std::vector<Prompt> prompts, bool echoes)
    : Reply(std::move(parts)), prompts_(std::move(prompts)), echoes_(echoes) {
  for (std::size_t i = 0; i < answers(); ++i) {
    choices_.push_back({ChoiceTokens(model().tokenizer(), asked().skip_special_tokens), {}});
    api::CompletionAnswer& answer = choices_.back().answer;
    answer.index = static_cast<std::uint32_t>(i);
    answer.text = prompt_of(i).echo;
    answer.has_top_logprobs = asked().logprobs.value_or(0) > 0;
    if (wants_logprobs()) answer.logprobs.emplace();
  }
}

void CompletionReply::add(std::size_t answer, std::span<const wire::Sample> samples,
                          std::string_view text) {
  if (asked().max_tokens == 0U) return;  // asked for the prompt's scores alone
  Choice& choice = choices_[answer];
  if (wants_logprobs()) add_all(choice.tokens.push(samples, text), *choice.answer.logprobs);
  choice.answer.text += text;
  if (asked().stream && !waits_for_scores()) send_pending(choice);
}

void CompletionReply::send_pending(Choice& choice) {
  api::CompletionAnswer& answer = choice.answer;
  const bool has_entries = answer.logprobs && !answer.logprobs->empty();
  if (answer.text.empty() && !has_entries && answer.finish_reason.empty()) return;
  api::CompletionChunk chunk;
  chunk.index = answer.index;
  chunk.has_top_logprobs = answer.has_top_logprobs;
  chunk.text_offset = choice.shown_characters;
  chunk.finish_reason = answer.finish_reason;
  choice.shown_characters += api::characters(answer.text);
  chunk.text = std::exchange(answer.text, {});
  if (answer.logprobs) chunk.logprobs = std::exchange(*answer.logprobs, {});
  send(api::completion_chunk(head(), chunk, asked().include_usage));
}

void CompletionReply::finish(std::size_t answer, const coordinator::Generation& generation) {
  Choice& choice = choices_[answer];
  if (wants_logprobs()) {
    std::vector<api::TokenEntry> all;
    if (echoes_) all = prompt_entries(answer, generation);
    add_all(std::exchange(*choice.answer.logprobs, {}), all);
    if (asked().max_tokens != 0U) add_all(choice.tokens.finish(end_of(generation)), all);
    choice.answer.logprobs = std::move(all);
  }
  choice.answer.finish_reason = to_string(generation.finish_reason);
  if (asked().max_tokens == 0U) choice.answer.finish_reason = "length";
  if (asked().stream) send_pending(choice);
}

std::vector<api::TokenEntry> CompletionReply::prompt_entries(
    std::size_t answer, const coordinator::Generation& generation) const {
  std::vector<api::TokenEntry> entries;
  const auto& tokens = prompt_of(answer).tokens;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    // None says how likely the first token is.
    const bool is_scored = i > 0 && i - 1 < generation.prompt_logprobs.size();
    const float logprob = is_scored ? generation.prompt_logprobs[i - 1] : 0;
    const bool has_top = is_scored && i - 1 < generation.prompt_top_logprobs.size();
    static const std::vector<wire::TokenLogprob> kNone;
    const auto& top = has_top ? generation.prompt_top_logprobs[i - 1] : kNone;
    entries.push_back(entry_of(model().tokenizer(), tokens[i], logprob, top));
    entries.back().has_logprob = is_scored;
  }
  return entries;
}

std::string CompletionReply::body(const api::Usage& usage) {
  std::vector<api::CompletionAnswer> answers;
  for (Choice& choice : choices_) answers.push_back(std::move(choice.answer));
  return api::dump(api::text_completion(head(), answers, usage));
}

}  // namespace paceline::serve
