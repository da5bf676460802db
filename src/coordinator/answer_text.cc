#include "coordinator/answer_text.h"

#include <utility>

namespace paceline::coordinator {

Result<AnswerText> AnswerText::create(const text::Tokenizer* tokenizer,
                                      const std::vector<std::string>& stop,
                                      bool skip_special_tokens) {
  if (tokenizer == nullptr && !stop.empty()) {
    return fail(ErrorCode::kInvalidArgument, "stop strings need a tokenizer");
  }
  PACELINE_ASSIGN_OR_RETURN(auto matcher, text::StopMatcher::create(stop));
  return AnswerText(tokenizer, std::move(matcher), skip_special_tokens);
}

AnswerText::AnswerText(const text::Tokenizer* tokenizer, text::StopMatcher matcher,
                       bool skip_special_tokens)
    : matcher_(std::move(matcher)) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer, skip_special_tokens);
}

Result<AnswerText::Piece> AnswerText::push(std::int64_t token) {
  if (!decoder_) return Piece();
  PACELINE_ASSIGN_OR_RETURN(const std::string text, decoder_->push(token));
  text::StopMatcher::Step step = matcher_.push(text);
  return Piece{std::move(step.text), step.stopped};
}

Result<std::string> AnswerText::finish() {
  if (!decoder_) return std::string();
  PACELINE_ASSIGN_OR_RETURN(const std::string rest, decoder_->finish());
  std::string text = matcher_.push(rest).text;
  return text + matcher_.finish();
}

}  // namespace paceline::coordinator
