#include "obs/log.h"

#include <fmt/format.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace paceline::obs {
namespace {

/// Fields of the line that this thread is logging: spdlog has no place for them, and a mark within
/// its text could be forged.
thread_local const std::vector<LogField>* current_fields = nullptr;

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

LogLevel from_spdlog(spdlog::level::level_enum level) {
  if (level <= spdlog::level::debug) return LogLevel::kDebug;
  if (level == spdlog::level::info) return LogLevel::kInfo;
  return level == spdlog::level::warn ? LogLevel::kWarn : LogLevel::kError;
}

/// With a backslash before each of `special`.
std::string escaped(std::string_view text, std::string_view special = {}) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(result), "\\x{:02x}", byte);
    } else {
      if (special.find(c) != std::string_view::npos) result += '\\';
      result += c;
    }
  }
  return result;
}

std::string quoted_where_needed(const std::string& text) {
  std::string safe = escaped(text, "\\\"");
  if (!safe.empty() && safe.find_first_of(" \"=") == std::string::npos) return safe;
  return '"' + safe + '"';
}

std::string shown(const LogField& field) {
  if (const auto* text = std::get_if<std::string>(&field.value)) return quoted_where_needed(*text);
  if (const auto* flag = std::get_if<bool>(&field.value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&field.value)) return std::to_string(*whole);
  return fmt::format("{:.6g}", std::get<double>(field.value));
}

/// UTC with milliseconds, "2026-01-02T03:04:05.678Z".
std::string time_text(std::chrono::system_clock::time_point time) {
  const auto since = time.time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     ms % 1000);
}

class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(LogFormat format) : format_(format) {}
  void format(const spdlog::details::log_msg& line, spdlog::memory_buf_t& out) override {
    const std::string text =
        format_log_line(format_, time_text(line.time), from_spdlog(line.level),
                        std::string_view(line.payload.data(), line.payload.size()),
                        current_fields == nullptr ? std::vector<LogField>() : *current_fields);
    out.append(text.data(), text.data() + text.size());
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(format_);
  }

 private:
  const LogFormat format_;
};

}  // namespace

Result<LogFormat> parse_log_format(std::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return fail(ErrorCode::kInvalidArgument, "log format {}: expected text or json", text);
}

Result<LogLevel> parse_log_level(std::string_view text) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError}) {
    if (text == name_of(level)) return level;
  }
  return fail(ErrorCode::kInvalidArgument, "log level {}: expected debug, info, warn or error",
              text);
}

std::string format_log_line(LogFormat format, std::string_view time, LogLevel level,
                            std::string_view message, const std::vector<LogField>& fields) {
  if (format == LogFormat::kText) {
    std::string line = fmt::format("{} {:5} {}", time, name_of(level), escaped(message));
    for (const LogField& field : fields) line += fmt::format(" {}={}", field.name, shown(field));
    return line;
  }
  nlohmann::ordered_json line = {{"time", time}, {"level", name_of(level)}, {"message", message}};
  for (const LogField& field : fields) {
    std::visit([&line, &field](const auto& value) { line[field.name] = value; }, field.value);
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void set_up_log(LogFormat format, LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>("paceline",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<LineFormatter>(format));
  logger->set_level(to_spdlog(level));
  spdlog::set_default_logger(std::move(logger));
}

void log(LogLevel level, std::string_view message, const std::vector<LogField>& fields) {
  current_fields = &fields;
  spdlog::log(to_spdlog(level), "{}", message);
  current_fields = nullptr;
}

}  // namespace paceline::obs
