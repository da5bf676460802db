// The program's log on stderr: plain lines, or one JSON object a line. It goes through spdlog, so
// that what any folder logs has the same form.
//
// Never of prompts, answers or keys: callers name what they log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace paceline::obs {

enum class LogFormat { kText, kJson };
enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// "text" or "json"; kInvalidArgument else.
Result<LogFormat> parse_log_format(std::string_view text);
/// "debug", "info", "warn" or "error"; kInvalidArgument else.
Result<LogLevel> parse_log_level(std::string_view text);

struct LogField {
  std::string name;
  std::variant<std::string, std::int64_t, double, bool> value;
};

/// One line without its end. Control characters of any value are escaped, so that nobody outside
/// can make lines of the log. Pure; `time` as it is to be shown.
std::string format_log_line(LogFormat format, std::string_view time, LogLevel level,
                            std::string_view message, const std::vector<LogField>& fields);

/// Replaces the program's logger. To be called before threads are started.
void set_up_log(LogFormat format, LogLevel level);

/// "MESSAGE name=value ..." or {"time", "level", "message", "name": value, ...}. Thread-safe.
void log(LogLevel level, std::string_view message, const std::vector<LogField>& fields = {});

}  // namespace paceline::obs
