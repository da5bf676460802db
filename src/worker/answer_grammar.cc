#include "worker/answer_grammar.h"

#include <algorithm>
#include <iterator>

namespace paceline::worker {

AnswerGrammar::AnswerGrammar(std::shared_ptr<const text::Grammar> grammar,
                             std::uint64_t vocabulary_size, std::vector<std::uint32_t> stop_tokens)
    : grammar_(std::move(grammar)),
      stop_tokens_(std::move(stop_tokens)),
      words_((vocabulary_size + 31) / 32) {}

bool AnswerGrammar::is_stop(std::uint32_t token) const {
  return std::find(stop_tokens_.begin(), stop_tokens_.end(), token) != stop_tokens_.end();
}

void AnswerGrammar::set_stops(bool are_allowed) {
  for (const std::uint32_t token : stop_tokens_) {
    if (token / 32 >= words_.size()) continue;
    const std::uint32_t bit = 1U << (token % 32);
    words_[token / 32] = are_allowed ? words_[token / 32] | bit : words_[token / 32] & ~bit;
  }
}

Status AnswerGrammar::go_to(const std::vector<std::uint32_t>& tokens) {
  if (!matcher_) {
    PACELINE_ASSIGN_OR_RETURN(matcher_, grammar_->matcher());
    committed_.clear();
  }
  const auto [here, there] =
      std::mismatch(committed_.begin(), committed_.end(), tokens.begin(), tokens.end());
  const auto back = static_cast<std::size_t>(std::distance(here, committed_.end()));
  if (back > 0) PACELINE_RETURN_IF_ERROR(matcher_->roll_back(back));
  PACELINE_RETURN_IF_ERROR(matcher_->commit({there, tokens.end()}));
  committed_ = tokens;
  return {};
}

Result<sampling::TokenMask> AnswerGrammar::mask(const sampling::TokenHistory& history,
                                                std::uint64_t begin) {
  std::vector<std::uint32_t> tokens;
  for (std::uint64_t at = begin; at < history.end_position(); ++at) {
    tokens.push_back(history.at(at));
  }
  if (std::any_of(tokens.begin(), tokens.end(), [this](auto token) { return is_stop(token); })) {
    // What a step that was planned ahead samples after the end: nobody reads it.
    std::fill(words_.begin(), words_.end(), 0);
    set_stops(true);
    return sampling::TokenMask(words_);
  }
  if (auto status = go_to(tokens); !status) {
    matcher_.reset();
    return fail(std::move(status).error());
  }
  const auto may_end = matcher_->mask(words_);
  if (!may_end) {
    matcher_.reset();
    return fail(may_end.error());
  }
  set_stops(*may_end);
  return sampling::TokenMask(words_);
}

Result<std::shared_ptr<const text::Grammar>> GrammarStore::find(const GrammarSpec& spec) {
  for (const auto& [kept, grammar] : kept_) {
    if (kept == spec) return grammar;
  }
  if (!vocabulary_) {
    if (tokenizer_.empty()) {
      return fail(ErrorCode::kFailedPrecondition, "grammar: the stage has no tokenizer.json");
    }
    PACELINE_ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::load(tokenizer_));
    PACELINE_ASSIGN_OR_RETURN(vocabulary_, text::GrammarVocabulary::create(tokenizer));
  }
  PACELINE_ASSIGN_OR_RETURN(auto compiled, vocabulary_->compile(spec));
  auto grammar = std::make_shared<const text::Grammar>(std::move(compiled));
  kept_.emplace_back(spec, grammar);
  if (kept_.size() > kKept) kept_.pop_front();
  return grammar;
}

void GrammarStore::forget(const GrammarSpec& spec) {
  std::erase_if(kept_, [&spec](const auto& kept) { return kept.first == spec; });
}

}  // namespace paceline::worker
