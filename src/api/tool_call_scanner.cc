#include "api/tool_call_scanner.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace paceline::api {
namespace {

/// What a JSON string says that is spelled so between its quotes.
std::string decoded(const std::string& spelled) {
  const auto json = nlohmann::json::parse('"' + spelled + '"', nullptr, false);
  return json.is_string() ? json.get<std::string>() : spelled;
}

bool is_arguments_key(std::string_view key) { return key == "arguments" || key == "parameters"; }

}  // namespace

std::size_t ToolCallScanner::read(std::string_view text) {
  std::size_t taken = 0;
  while (taken < text.size() && !is_finished_) read(text[taken++]);
  raw_ += text.substr(0, taken);
  return taken;
}

std::string ToolCallScanner::take_arguments() { return std::exchange(arguments_, {}); }

void ToolCallScanner::read(char byte) {
  if (in_string_) return read_in_string(byte);
  if (byte == '{' || byte == '[') open();
  if (is_capturing_) arguments_ += byte;
  if (byte == '}' || byte == ']') return close();
  if (byte == '"') {
    in_string_ = true;
    string_.clear();
  } else if (depth_ == 1 && byte == ':') {
    key_ = decoded(string_);
  } else if (depth_ == 1 && byte == ',') {
    key_.clear();
  }
}

void ToolCallScanner::read_in_string(char byte) {
  if (is_capturing_) arguments_ += byte;
  if (!is_escaped_ && byte == '"') {
    in_string_ = false;
    return end_string();
  }
  if (depth_ == 1) string_ += byte;
  is_escaped_ = !is_escaped_ && byte == '\\';
}

void ToolCallScanner::open() {
  ++depth_;
  const bool is_value = depth_ == 2 && is_arguments_key(key_) && !is_arguments_;
  if (!has_arguments_ && (is_value || (is_arguments_ && depth_ == 1))) {
    is_capturing_ = true;
    has_arguments_ = true;
  }
}

void ToolCallScanner::close() {
  if (depth_ > 0) --depth_;
  if (depth_ == (is_arguments_ ? 0U : 1U)) is_capturing_ = false;
  is_finished_ = depth_ == 0;
}

void ToolCallScanner::end_string() {
  if (depth_ != 1 || is_arguments_ || key_.empty()) return;
  if (key_ == "name" && name_.empty()) name_ = decoded(string_);
  // Some models spell the arguments as text.
  if (is_arguments_key(key_) && !has_arguments_) {
    arguments_ = decoded(string_);
    has_arguments_ = true;
  }
}

}  // namespace paceline::api
