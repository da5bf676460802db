#include "serve/choice_tokens.h"

#include <algorithm>
#include <utility>

namespace paceline::serve {
namespace {

std::string bytes_of(const text::Tokenizer* tokenizer, std::int64_t token) {
  return tokenizer == nullptr ? std::string() : tokenizer->token_bytes(token);
}

}  // namespace

api::TokenEntry entry_of(const text::Tokenizer* tokenizer, std::int64_t token, float logprob,
                         std::span<const wire::TokenLogprob> top) {
  api::TokenEntry entry;
  entry.token = {bytes_of(tokenizer, token), logprob};
  for (const wire::TokenLogprob& other : top) {
    entry.top.push_back({bytes_of(tokenizer, other.token), other.logprob});
  }
  return entry;
}

std::vector<api::TokenEntry> ChoiceTokens::push(std::span<const wire::Sample> samples,
                                                std::string_view text) {
  for (const wire::Sample& sample : samples) {
    Held held = {entry_of(tokenizer_, sample.token, sample.logprob, sample.top), next_begin_};
    const bool is_hidden =
        skip_special_tokens_ && tokenizer_ != nullptr && tokenizer_->is_special(sample.token);
    if (!is_hidden) next_begin_ += held.entry.token.bytes.size();
    held_.push_back(std::move(held));
  }
  if (tokenizer_ == nullptr) return release(held_.size());
  // SentencePiece's first space is no part of the text.
  if (shown_bytes_ == 0 && !text.empty() && text.front() != ' ' && !held_.empty() &&
      held_.front().entry.token.bytes.starts_with(' ')) {
    shown_bytes_ = 1;
  }
  shown_bytes_ += text.size();
  const auto end = std::find_if(held_.begin(), held_.end(),
                                [this](const Held& held) { return held.begin >= shown_bytes_; });
  return release(static_cast<std::size_t>(end - held_.begin()));
}

std::vector<api::TokenEntry> ChoiceTokens::finish(End end) {
  if (end == End::kEndToken && !held_.empty()) held_.pop_back();
  if (end == End::kStopString) held_.clear();
  return release(held_.size());
}

std::vector<api::TokenEntry> ChoiceTokens::release(std::size_t count) {
  std::vector<api::TokenEntry> released;
  for (; count > 0; --count) {
    released.push_back(std::move(held_.front().entry));
    held_.pop_front();
  }
  return released;
}

}  // namespace paceline::serve
