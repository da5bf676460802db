// A part of an assistant's message, or all of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::api {

struct ToolCallDelta {
  std::uint32_t index = 0;
  std::string id = {};    ///< with the call's first delta
  std::string name = {};  ///< the same
  std::string arguments = {};
  friend bool operator==(const ToolCallDelta&, const ToolCallDelta&) = default;
};

struct AnswerDelta {
  std::string content = {};
  std::string reasoning = {};
  std::vector<ToolCallDelta> tool_calls = {};

  bool empty() const { return content.empty() && reasoning.empty() && tool_calls.empty(); }
  /// Adds what came after; arguments go to the call that they belong to.
  void append(const AnswerDelta& later);
  friend bool operator==(const AnswerDelta&, const AnswerDelta&) = default;
};

}  // namespace paceline::api
