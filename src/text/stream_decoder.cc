#include "text/stream_decoder.h"

#include <string_view>
#include <utility>

namespace paceline::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Held-back tokens above which their front is looked at: is it broken for good?
constexpr std::size_t kMaxHeld = 8;
/// A character has at most four bytes, so what this many tokens follow cannot change.
constexpr std::size_t kMinHeld = 4;
/// Where no cut is found (no known decoder comes here) all is shown.
constexpr std::size_t kHeldLimit = 64;

}  // namespace

Result<std::string> StreamDecoder::push(std::int64_t token) {
  if (skip_special_tokens_ && tokenizer_->is_special(token)) return std::string();
  window_.push_back(token);
  auto text = decode_window(0, window_.size());
  if (!text || token >= tokenizer_->vocabulary_size()) {
    window_.pop_back();
    return text ? std::string() : text;
  }
  if (*text == context_text_) {
    if (window_.size() - context_size_ > kMaxHeld) window_.pop_back();
    return std::string();
  }
  if (!text->ends_with(kReplacement)) return show(*text, window_.size());
  return show_front(*text);
}

Result<std::string> StreamDecoder::finish() {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, decode_window(0, window_.size()));
  auto rest = unshown(text, window_.size());
  window_.clear();
  context_size_ = 0;
  context_text_.clear();
  return rest;
}

Result<std::string> StreamDecoder::decode_window(std::size_t begin, std::size_t end) const {
  return tokenizer_->decode(std::span(window_).subspan(begin, end - begin), skip_special_tokens_);
}

Result<std::string> StreamDecoder::unshown(const std::string& text, std::size_t end) const {
  if (text.starts_with(context_text_)) return text.substr(context_text_.size());
  // Byte fallback: a broken byte undid the characters before it, which were shown.
  return decode_window(context_size_, end);
}

Result<std::string> StreamDecoder::show(const std::string& text, std::size_t end) {
  PACELINE_ASSIGN_OR_RETURN(std::string shown, unshown(text, end));
  PACELINE_ASSIGN_OR_RETURN(context_text_, decode_window(context_size_, end));
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(context_size_));
  context_size_ = end - context_size_;
  return shown;
}

Result<std::string> StreamDecoder::show_front(const std::string& text) {
  const std::size_t held = window_.size() - context_size_;
  if (held <= kMaxHeld) return std::string();
  PACELINE_ASSIGN_OR_RETURN(const std::string alone, decode_window(context_size_, window_.size()));
  for (std::size_t end = window_.size() - kMinHeld; end > context_size_; --end) {
    // A cut through a character would show here: its halves decode to more than the whole.
    PACELINE_ASSIGN_OR_RETURN(const std::string front, decode_window(0, end));
    PACELINE_ASSIGN_OR_RETURN(const std::string front_alone, decode_window(context_size_, end));
    if (text.starts_with(front) && alone.starts_with(front_alone) &&
        std::string_view(text).substr(front.size()) ==
            std::string_view(alone).substr(front_alone.size())) {
      return show(front, end);
    }
  }
  return held > kHeldLimit ? show(text, window_.size()) : std::string();
}

}  // namespace paceline::text
