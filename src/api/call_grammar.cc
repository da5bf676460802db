#include "api/call_grammar.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace paceline::api {
namespace {

/// In Lark's strings and JSON's alike.
std::string lark_string(std::string_view text) { return Json(text).dump(-1, ' ', true); }

/// For an expression between slashes; other marks than these mean themselves.
std::string escaped(std::string_view text) {
  std::string expression;
  for (const char byte : text) {
    if (std::string_view("\\/.+*?()|[]{}^$").find(byte) != std::string_view::npos) {
      expression += '\\';
    }
    expression += byte;
  }
  return expression;
}

struct Spelling {
  std::string_view open;
  std::string_view close;
  std::string_view arguments;      ///< the key of what a call is made with
  std::string_view begin;          ///< between the mark and the first call
  std::string_view end;            ///< behind the last one
  std::string_view between;        ///< calls of one pair of marks; empty: each has marks of its own
  std::string_view between_marks;  ///< and then this stands between them
};

Spelling spelling_of(const CallForm& form) {
  switch (form.format) {
    case ToolFormat::kLlama:
      return {"", "", "parameters", "", "", "", ""};
    case ToolFormat::kMistral:
      if (form.names_first) return {"[TOOL_CALLS]", "", "arguments", "", "", "", ""};
      return {"[TOOL_CALLS]", "", "arguments", "[", "]", ", ", ""};
    case ToolFormat::kPhi:
      return {"<|tool_call|>", "<|/tool_call|>", "arguments", "[", "]", ", ", ""};
    default:
      return {"<tool_call>", "</tool_call>", "arguments", "\n", "\n", "", "\n"};
  }
}

/// Gathers a text of Lark. Lives for one grammar.
class CallWriter {
 public:
  CallWriter(const CallForm& form, const SpecialToken& special)
      : form_(form), special_(special), spelling_(spelling_of(form)) {}

  void add_tool(const Json& function) {
    const std::string name = function["name"];
    const std::size_t index = tools_++;
    calls_ += fmt::format("{}call{}", index == 0 ? "" : " | ", index);
    if (form_.names_first && form_.format == ToolFormat::kMistral) {
      rules_ += fmt::format("call{0}: {1} {2} args{0}\n", index, lark_string(name), mark("[ARGS]"));
    } else {
      const std::string head = fmt::format(R"({{"name": "{}", "{}": )", name, spelling_.arguments);
      rules_ += fmt::format("call{0}: {1} args{0} \"}}\"\n", index, lark_string(head));
    }
    rules_ += fmt::format("args{}: %json {}\n", index, arguments_of(function).dump());
  }

  std::string text() const {
    const std::string group = between_calls();
    return start() + fmt::format("calls: {}{}\ncall: {}\n", mark(spelling_.open), group, calls_) +
           rules_ + rest_rules(group);
  }

  bool has_tools() const { return tools_ > 0; }

 private:
  static Json arguments_of(const Json& function) {
    const auto given = function.find("parameters");
    if (given == function.end() || given->is_null()) {
      return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
    }
    Json arguments = *given;
    if (!arguments.contains("type") && !arguments.contains("$ref")) arguments["type"] = "object";
    return arguments;
  }

  bool is_several() const {
    return form_.is_parallel && form_.name.empty() && form_.format != ToolFormat::kLlama;
  }

  std::string mark(std::string_view mark) const {
    if (mark.empty()) return "";
    const auto id = special_ ? special_(mark) : std::nullopt;
    return id ? fmt::format("<[{}]>", *id) : lark_string(mark);
  }
  bool opens_with_text() const {
    return !spelling_.open.empty() && !(special_ && special_(spelling_.open));
  }

  /// Of the first mark on: what follows it.
  std::string between_calls() const {
    const auto literal = [](std::string_view text) {
      return text.empty() ? "" : lark_string(text);
    };
    std::string group = fmt::format(" {} call ", literal(spelling_.begin));
    if (is_several() && !spelling_.between.empty()) {
      group += fmt::format("({} call)* ", literal(spelling_.between));
    }
    group += fmt::format("{} {}", literal(spelling_.end), mark(spelling_.close));
    if (is_several() && spelling_.between.empty()) {
      const std::string one = group;
      group +=
          fmt::format(" ({} {}{})*", literal(spelling_.between_marks), mark(spelling_.open), one);
    }
    return group;
  }

  std::string start() const {
    if (form_.must_call) return "start: calls\n";
    if (form_.other) return "start: calls | other\n";
    if (form_.format == ToolFormat::kLlama) return "start: calls | TEXT?\n";
    return opens_with_text() ? "start: led | TEXT?\n" : "start: TEXT? calls?\n";
  }

  /// Of answers that may be something else than calls.
  std::string rest_rules(const std::string& group) const {
    if (form_.must_call) return "";
    if (form_.other) {
      const GrammarSpec& spec = form_.other->spec;
      const bool is_any = spec.kind == GrammarKind::kJsonObject;
      return "other: %json " + (is_any ? R"({"type":"object"})" : spec.text) + "\n";
    }
    // What begins like a call is one.
    if (form_.format == ToolFormat::kLlama) return "TEXT: /\\s*[^{\\s](?s:.*)/\n";
    if (!opens_with_text()) return "TEXT: /(?s:.+)/\n";
    const std::string open = escaped(spelling_.open);
    return "led: lead" + group + "\nlead[lazy]: /(?s:.*)" + open +
           "/\nTEXT: /(?s:.+)/ & ~/(?s:.*)" + open + "(?s:.*)/\n";
  }

  const CallForm& form_;
  const SpecialToken& special_;
  const Spelling spelling_;
  std::size_t tools_ = 0;
  std::string calls_;
  std::string rules_;
};

std::optional<ApiError> check_other(const CallForm& form) {
  if (!form.other || form.must_call) return std::nullopt;
  const GrammarKind kind = form.other->spec.kind;
  if (kind != GrammarKind::kJsonObject && kind != GrammarKind::kJsonSchema) {
    return unsupported_field(form.other->field,
                             "only JSON is offered with tools that may be called");
  }
  if (form.format == ToolFormat::kLlama) {
    return unsupported_field(form.other->field,
                             "is not offered with tools that may be called: this model's calls are "
                             "JSON, too; tool_choice none or required decides");
  }
  return std::nullopt;
}

}  // namespace

bool names_calls_first(std::string_view chat_template) {
  return chat_template.find("[ARGS]") != std::string_view::npos;
}

Parsed<GrammarSpec> call_grammar(const CallForm& form, const Json& tools,
                                 const SpecialToken& special) {
  if (auto problem = check_other(form)) return tl::unexpected(*std::move(problem));
  CallWriter writer(form, special);
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (form.name.empty() || function["name"] == form.name) writer.add_tool(function);
  }
  if (!writer.has_tools()) {
    return tl::unexpected(invalid_field("tool_choice", "none of the tools has this name"));
  }
  std::string text = writer.text();
  if (text.size() > GrammarSpec::kMaxTextBytes) {
    return tl::unexpected(invalid_field(
        "tools", fmt::format("expected schemas of at most {} bytes in all where calls must hold "
                             "them",
                             GrammarSpec::kMaxTextBytes)));
  }
  return GrammarSpec{GrammarKind::kLark, std::move(text)};
}

}  // namespace paceline::api
