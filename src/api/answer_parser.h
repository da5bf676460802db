// A model's text divided into what it thinks, what it says, and the tools that it calls.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_delta.h"
#include "api/tool_call_scanner.h"

namespace paceline::api {

/// How a family of models writes calls.
enum class ToolFormat {
  kNone,     ///< calls are not looked for
  kHermes,   ///< <tool_call>{"name", "arguments"}</tool_call>; Qwen, too
  kLlama,    ///< {"name", "parameters"} as the whole answer, or after <|python_tag|>
  kMistral,  ///< [TOOL_CALLS][{"name", "arguments"}], or [TOOL_CALLS]name[ARGS]{...}
  kPhi,      ///< <|tool_call|>[{"name", "arguments"}]<|/tool_call|>
};

/// By the marks that a chat template has; kHermes where it has none that is known.
ToolFormat tool_format_of(std::string_view chat_template);
/// Whether its marks are special tokens, which text shows only where it is asked to.
bool has_special_marks(ToolFormat format);

struct AnswerParserOptions {
  bool separates_reasoning = true;   ///< <think>...</think> at the begin
  bool begins_in_reasoning = false;  ///< <think> was the prompt's last word
  ToolFormat tools = ToolFormat::kNone;
  bool parallel_tool_calls = true;  ///< else the first call alone is given
  std::set<std::string> tool_names = {};
  std::string call_id = {};  ///< ids of calls begin with it
};

/// Text goes in in pieces of any size; the deltas of all pieces add up to the same. Nothing of a
/// mark is ever given, and what looks like a call and is none comes as content. Thread-compatible.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerParserOptions options);

  AnswerDelta push(std::string_view text);
  /// The text has ended: what was held back.
  AnswerDelta finish();
  bool has_tool_calls() const { return calls_ > 0; }

 private:
  enum class State {
    kStart,  ///< maybe <think>
    kReasoning,
    kBetween,  ///< whitespace behind a mark is dropped
    kBegin,    ///< of the content, which may be a call as a whole
    kContent,
    kCalls,     ///< between calls
    kCallName,  ///< Mistral's, before the arguments
    kCall,
  };
  AnswerDelta run();
  /// One step; false: more text is needed.
  bool step(AnswerDelta& delta);
  bool read_start();
  bool read_reasoning(AnswerDelta& delta);
  bool read_between();
  bool read_begin();
  bool read_content(AnswerDelta& delta);
  bool read_calls();
  bool read_call_name();
  bool read_call(AnswerDelta& delta);
  void announce(AnswerDelta& delta);
  void give_arguments(AnswerDelta& delta);
  void end_call(AnswerDelta& delta);
  /// Bytes at the end that may belong to one of `marks`, or are whitespace before one.
  std::size_t held_bytes(std::initializer_list<std::string_view> marks) const;
  bool may_become(std::string_view mark) const;
  bool take(std::string_view mark);

  AnswerParserOptions options_;
  State state_;
  bool is_final_ = false;
  bool is_front_ = true;       ///< no reasoning was given yet
  bool is_tentative_ = false;  ///< the call is one only if it names a tool
  std::string pending_;
  std::optional<ToolCallScanner> call_;
  bool is_announced_ = false;
  std::uint32_t calls_ = 0;
};

}  // namespace paceline::api
