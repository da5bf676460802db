// One tool call as models write it, an object with a name and arguments, read byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::api {

/// Gives the arguments as they come, in the model's own spelling. Not a judge of JSON: what is no
/// call ends without a name or never. Thread-compatible.
class ToolCallScanner {
 public:
  /// Reads an object with "name" and "arguments" (or "parameters").
  ToolCallScanner() = default;
  /// The name came before; the object is the arguments.
  explicit ToolCallScanner(std::string name) : name_(std::move(name)), is_arguments_(true) {}

  /// Reads up to the object's end; returns how many bytes it took.
  std::size_t read(std::string_view text);

  bool is_finished() const { return is_finished_; }
  const std::string& name() const { return name_; }
  bool has_arguments() const { return has_arguments_; }
  /// What came since the last call.
  std::string take_arguments();
  /// All that was read.
  const std::string& raw() const { return raw_; }

 private:
  void read(char byte);
  void read_in_string(char byte);
  void open();
  void close();
  void end_string();

  std::string name_;
  bool is_arguments_ = false;
  std::string raw_;
  std::string arguments_;
  bool has_arguments_ = false;
  bool is_capturing_ = false;  ///< arguments
  bool is_finished_ = false;
  bool in_string_ = false;
  bool is_escaped_ = false;
  std::uint32_t depth_ = 0;
  std::string string_;  ///< the last one at depth 1, as it is spelled
  std::string key_;     ///< whose value comes; empty: a key comes
};

}  // namespace paceline::api
