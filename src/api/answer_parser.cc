#include "api/answer_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace paceline::api {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kArguments = "[ARGS]";
constexpr std::size_t kMaxName = 256;

struct Marks {
  std::string_view open;
  std::string_view close;  ///< empty: calls end with the answer
};

Marks marks_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::kHermes:
      return {"<tool_call>", "</tool_call>"};
    case ToolFormat::kLlama:
      return {"<|python_tag|>", ""};
    case ToolFormat::kMistral:
      return {"[TOOL_CALLS]", ""};
    case ToolFormat::kPhi:
      return {"<|tool_call|>", "<|/tool_call|>"};
    case ToolFormat::kNone:
      break;
  }
  return {};
}

std::size_t space_at_begin(std::string_view text) {
  return std::min(text.find_first_not_of(kSpace), text.size());
}

bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' || byte == '.';
}

}  // namespace

ToolFormat tool_format_of(std::string_view chat_template) {
  const auto has = [chat_template](std::string_view mark) {
    return chat_template.find(mark) != std::string_view::npos;
  };
  if (has("<tool_call>")) return ToolFormat::kHermes;
  if (has("<|tool_call|>")) return ToolFormat::kPhi;
  if (has("[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (has("<|python_tag|>") || (has("<|start_header_id|>") && has("parameters"))) {
    return ToolFormat::kLlama;
  }
  return ToolFormat::kHermes;
}

bool has_special_marks(ToolFormat format) {
  return format == ToolFormat::kLlama || format == ToolFormat::kMistral ||
         format == ToolFormat::kPhi;
}

AnswerParser::AnswerParser(AnswerParserOptions options)
    : options_(std::move(options)),
      state_(!options_.separates_reasoning  ? State::kBegin
             : options_.begins_in_reasoning ? State::kReasoning
                                            : State::kStart) {}

AnswerDelta AnswerParser::push(std::string_view text) {
  pending_ += text;
  return run();
}

AnswerDelta AnswerParser::finish() {
  is_final_ = true;
  AnswerDelta delta = run();
  // A call that was cut off before it said what it is.
  if (state_ == State::kCall && !is_announced_) delta.content += call_->raw();
  if (state_ == State::kCallName) delta.content += std::exchange(pending_, {});
  return delta;
}

AnswerDelta AnswerParser::run() {
  AnswerDelta delta;
  while (step(delta)) {
  }
  return delta;
}

bool AnswerParser::step(AnswerDelta& delta) {
  switch (state_) {
    case State::kStart:
      return read_start();
    case State::kReasoning:
      return read_reasoning(delta);
    case State::kBetween:
      return read_between();
    case State::kBegin:
      return read_begin();
    case State::kContent:
      return read_content(delta);
    case State::kCalls:
      return read_calls();
    case State::kCallName:
      return read_call_name();
    case State::kCall:
      return read_call(delta);
  }
  return false;
}

bool AnswerParser::may_become(std::string_view mark) const {
  return !is_final_ && pending_.size() < mark.size() && mark.starts_with(pending_);
}

bool AnswerParser::take(std::string_view mark) {
  if (mark.empty() || !pending_.starts_with(mark)) return false;
  pending_.erase(0, mark.size());
  return true;
}

std::size_t AnswerParser::held_bytes(std::initializer_list<std::string_view> marks) const {
  if (is_final_) return 0;
  std::size_t held = 0;
  for (const std::string_view mark : marks) {
    for (std::size_t bytes = std::min(mark.size(), pending_.size() + 1) - 1; bytes > held;
         --bytes) {
      if (std::string_view(pending_).ends_with(mark.substr(0, bytes))) held = bytes;
    }
  }
  while (held < pending_.size() &&
         kSpace.find(pending_[pending_.size() - held - 1]) != std::string_view::npos) {
    ++held;
  }
  return held;
}

bool AnswerParser::read_start() {
  const std::size_t space = space_at_begin(pending_);
  const std::string_view rest = std::string_view(pending_).substr(space);
  if (rest.starts_with(kThink)) {
    pending_.erase(0, space + kThink.size());
    state_ = State::kReasoning;
    return true;
  }
  if (!is_final_ && kThink.starts_with(rest)) return false;
  state_ = State::kBegin;
  return true;
}

bool AnswerParser::read_reasoning(AnswerDelta& delta) {
  if (is_front_) pending_.erase(0, space_at_begin(pending_));
  const std::size_t end = pending_.find(kThinkEnd);
  const bool is_found = end != std::string::npos;
  std::size_t shown = is_found ? end : pending_.size() - held_bytes({kThinkEnd});
  const std::size_t taken = is_found ? end + kThinkEnd.size() : shown;
  if (is_found) {
    const std::size_t last = std::string_view(pending_).substr(0, end).find_last_not_of(kSpace);
    shown = last == std::string_view::npos ? 0 : last + 1;
    state_ = State::kBetween;
  }
  if (shown > 0) is_front_ = false;
  delta.reasoning += std::string_view(pending_).substr(0, shown);
  pending_.erase(0, taken);
  return is_found;
}

bool AnswerParser::read_between() {
  pending_.erase(0, space_at_begin(pending_));
  if (pending_.empty()) return false;
  state_ = State::kBegin;
  return true;
}

bool AnswerParser::read_begin() {
  if (options_.tools == ToolFormat::kLlama && calls_ == 0) {
    const std::size_t space = space_at_begin(pending_);
    if (space == pending_.size() && !is_final_) return false;
    if (space < pending_.size() && pending_[space] == '{') {
      is_tentative_ = true;
      call_.emplace();
      state_ = State::kCall;
      return true;
    }
  }
  state_ = State::kContent;
  return true;
}

bool AnswerParser::read_content(AnswerDelta& delta) {
  if (options_.tools == ToolFormat::kNone) {
    delta.content += std::exchange(pending_, {});
    return false;
  }
  const Marks marks = marks_of(options_.tools);
  const std::size_t open = pending_.find(marks.open);
  if (open == std::string::npos) {
    const std::size_t shown = pending_.size() - held_bytes({marks.open});
    delta.content += std::string_view(pending_).substr(0, shown);
    pending_.erase(0, shown);
    return false;
  }
  const std::size_t last = std::string_view(pending_).substr(0, open).find_last_not_of(kSpace);
  delta.content += std::string_view(pending_).substr(0, last == std::string::npos ? 0 : last + 1);
  pending_.erase(0, open + marks.open.size());
  state_ = State::kCalls;
  return true;
}

bool AnswerParser::read_calls() {
  const Marks marks = marks_of(options_.tools);
  pending_.erase(0, space_at_begin(pending_));
  if (pending_.empty()) return false;
  if (take(marks.open)) return true;
  if (take(marks.close)) {
    state_ = State::kBetween;
    return true;
  }
  if (may_become(marks.open) || may_become(marks.close)) return false;
  const char byte = pending_.front();
  if (byte == '[' || byte == ']' || byte == ',' || byte == ';') {
    pending_.erase(0, 1);
  } else if (byte == '{') {
    is_tentative_ = false;
    call_.emplace();
    state_ = State::kCall;
  } else {
    const bool is_name = options_.tools == ToolFormat::kMistral && is_name_byte(byte);
    state_ = is_name ? State::kCallName : State::kContent;
  }
  return true;
}

bool AnswerParser::read_call_name() {
  const auto* end =
      std::find_if_not(pending_.data(), pending_.data() + pending_.size(), is_name_byte);
  const auto size = static_cast<std::size_t>(end - pending_.data());
  std::string_view rest = std::string_view(pending_).substr(size);
  if (rest.starts_with(kArguments)) rest.remove_prefix(kArguments.size());
  rest.remove_prefix(space_at_begin(rest));
  if (rest.starts_with('{')) {
    call_.emplace(pending_.substr(0, size));
    pending_.erase(0, pending_.size() - rest.size());
    is_tentative_ = false;
    state_ = State::kCall;
    return true;
  }
  const bool may_come =
      size <= kMaxName && !is_final_ && (rest.empty() || kArguments.starts_with(rest));
  if (!may_come) state_ = State::kContent;
  return !may_come;
}

bool AnswerParser::read_call(AnswerDelta& delta) {
  pending_.erase(0, call_->read(pending_));
  const bool is_call =
      !call_->name().empty() && (!is_tentative_ || options_.tool_names.contains(call_->name()));
  const bool is_whole = call_->is_finished() && !is_tentative_;
  if (!is_announced_ && is_call && (call_->has_arguments() || is_whole)) announce(delta);
  if (is_announced_) give_arguments(delta);
  if (!call_->is_finished()) return false;
  end_call(delta);
  return true;
}

void AnswerParser::announce(AnswerDelta& delta) {
  is_announced_ = true;
  const std::uint32_t index = calls_++;
  if (index > 0 && !options_.parallel_tool_calls) return;
  const std::string arguments = call_->has_arguments() ? "" : "{}";
  delta.tool_calls.push_back(
      {index, fmt::format("{}{:02}", options_.call_id, index), call_->name(), arguments});
}

void AnswerParser::give_arguments(AnswerDelta& delta) {
  const std::string arguments = call_->take_arguments();
  const std::uint32_t index = calls_ - 1;
  if (arguments.empty() || (index > 0 && !options_.parallel_tool_calls)) return;
  if (!delta.tool_calls.empty() && delta.tool_calls.back().index == index) {
    delta.tool_calls.back().arguments += arguments;
  } else {
    delta.tool_calls.push_back({index, "", "", arguments});
  }
}

void AnswerParser::end_call(AnswerDelta& delta) {
  if (!is_announced_) delta.content += call_->raw();
  state_ = is_announced_ || !is_tentative_ ? State::kCalls : State::kContent;
  is_announced_ = false;
  call_.reset();
}

}  // namespace paceline::api
