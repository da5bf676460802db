#include "obs/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

namespace paceline::obs {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<LogField> kFields = {{"request_id", std::string("req_1")},
                                       {"status", std::int64_t{200}},
                                       {"seconds", 0.25},
                                       {"stream", true}};

TEST(LogLine, Text) {
  EXPECT_EQ(format_log_line(LogFormat::kText, "T", LogLevel::kInfo, "answered", kFields),
            "T info  answered request_id=req_1 status=200 seconds=0.25 stream=true");
}

TEST(LogLine, Json) {
  const std::string line =
      format_log_line(LogFormat::kJson, "T", LogLevel::kWarn, "answered", kFields);
  EXPECT_EQ(line,
            R"({"time":"T","level":"warn","message":"answered","request_id":"req_1","status":200,)"
            R"("seconds":0.25,"stream":true})");
}

TEST(LogLine, NobodyMakesLinesOrFields) {
  const std::string evil = "x\nT error forged=\"1\" \\ \x1b[31m\xff";
  const std::vector<LogField> fields = {{"path", evil}};
  const std::string text = format_log_line(LogFormat::kText, "T", LogLevel::kInfo, evil, fields);
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr(R"(path="x\x0aT error forged=\"1\" \\ \x1b[31m)"));
  const std::string json = format_log_line(LogFormat::kJson, "T", LogLevel::kInfo, evil, fields);
  EXPECT_THAT(json, Not(HasSubstr("\n")));
  const auto parsed = nlohmann::json::parse(json);
  EXPECT_EQ(parsed.size(), 4U);
  EXPECT_THAT(parsed.at("path").get<std::string>(), HasSubstr("forged=\"1\" \\ "));
}

TEST(LogLine, EmptyValuesAreSeen) {
  const std::string text =
      format_log_line(LogFormat::kText, "T", LogLevel::kError, "m", {{"tenant", std::string()}});
  EXPECT_EQ(text, "T error m tenant=\"\"");
}

TEST(Log, NamesAreParsed) {
  EXPECT_EQ(parse_log_format("json"), LogFormat::kJson);
  EXPECT_EQ(parse_log_format("text"), LogFormat::kText);
  EXPECT_THAT(parse_log_format("xml").error().message(), HasSubstr("xml"));
  EXPECT_EQ(parse_log_level("warn"), LogLevel::kWarn);
  EXPECT_THAT(parse_log_level("loud").error().message(), HasSubstr("loud"));
}

TEST(Log, GoesToStderrWithWhatOthersLog) {
  const auto before = spdlog::default_logger();
  set_up_log(LogFormat::kJson, LogLevel::kInfo);
  testing::internal::CaptureStderr();
  log(LogLevel::kInfo, "ours {}", {{"a", std::int64_t{1}}});
  spdlog::warn("of another folder");
  log(LogLevel::kDebug, "too fine");
  spdlog::default_logger()->flush();
  std::fflush(stderr);
  const std::string output = testing::internal::GetCapturedStderr();
  spdlog::set_default_logger(before);
  const std::size_t end = output.find('\n');
  ASSERT_NE(end, std::string::npos);
  const auto first = nlohmann::json::parse(output.substr(0, end));
  const auto second = nlohmann::json::parse(output.substr(end + 1));
  EXPECT_EQ(first.at("message"), "ours {}");
  EXPECT_EQ(first.at("a"), 1);
  EXPECT_THAT(first.at("time").get<std::string>(),
              testing::MatchesRegex("20[0-9-]+T[0-9:]+\\.[0-9]+Z"));
  EXPECT_EQ(second.at("message"), "of another folder");
  EXPECT_EQ(second.at("level"), "warn");
  EXPECT_FALSE(second.contains("a")) << "fields are of one line";
}

}  // namespace
}  // namespace paceline::obs
