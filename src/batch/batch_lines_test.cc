#include "batch/batch_lines.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace paceline::batch {
namespace {

using testing::HasSubstr;

std::string request(const std::string& members) {
  return R"({"method": "POST", "url": "/v1/completions", )" + members + "}\n";
}
RequestLine only(const std::string& text) {
  const auto lines = read_lines(text, "/v1/completions");
  EXPECT_TRUE(lines && lines->size() == 1) << text;
  return lines && !lines->empty() ? lines->front() : RequestLine();
}

TEST(BatchLinesTest, ALineBecomesARequestBehindAllWhoWait) {
  const auto line = only(request(R"("custom_id": "a", "body": {"prompt": "x"})"));
  EXPECT_EQ(line.custom_id, "a");
  EXPECT_EQ(line.body, R"({"prompt":"x","priority":-360})");
  EXPECT_EQ(line.error, "");
  EXPECT_THAT(only(request(R"("custom_id": "a", "body": {"priority": 5000})")).body,
              HasSubstr("-360"));
  EXPECT_THAT(only(request(R"("custom_id": "a", "body": {"priority": -10})")).body,
              HasSubstr("-370"));
}

TEST(BatchLinesTest, EmptyLinesAndLineEnds) {
  const std::string line = R"({"custom_id": "a)";
  const auto lines =
      read_lines("\r\n  \n" + request(R"("custom_id": "a", "body": {})") + "\n" +
                     R"({"custom_id": "b", "method": "POST", "url": "/v1/completions",)" +
                     R"( "body": {}})" + "\r",
                 "/v1/completions");
  ASSERT_TRUE(lines.has_value());
  ASSERT_EQ(lines->size(), 2U);
  EXPECT_EQ(lines->at(1).custom_id, "b");
  EXPECT_EQ(lines->at(1).error, "");
}

TEST(BatchLinesTest, ABrokenLineKeepsItsId) {
  EXPECT_THAT(only("{").error, HasSubstr("JSON"));
  EXPECT_EQ(only("{").custom_id, "");
  const auto expect = [](const std::string& text, const std::string& error) {
    const auto line = only(text);
    EXPECT_EQ(line.custom_id, "a") << text;
    EXPECT_THAT(line.error, HasSubstr(error)) << text;
    EXPECT_EQ(line.body, "");
  };
  expect(request(R"("custom_id": "a")"), "body: is missing");
  expect(request(R"("custom_id": "a", "body": [])"), "body: expected an object");
  expect(request(R"("custom_id": "a", "body": {"stream": true})"), "body.stream");
  expect(request(R"("custom_id": "a", "body": {"priority": "high"})"), "body.priority");
  expect(R"({"custom_id": "a", "method": "GET", "url": "/v1/completions", "body": {}})", "method");
  expect(R"({"custom_id": "a", "method": "POST", "url": "/v1/other", "body": {}})", "url");
  EXPECT_THAT(only(request(R"("body": {})")).error, HasSubstr("custom_id: is missing"));
}

TEST(BatchLinesTest, AnIdCountsOnce) {
  const std::string line = request(R"("custom_id": "a", "body": {})");
  const auto lines = read_lines(line + line, "/v1/completions");
  EXPECT_EQ(lines->at(0).error, "");
  EXPECT_THAT(lines->at(1).error, HasSubstr("earlier line"));
}

TEST(BatchLinesTest, NoLinesOrTooMany) {
  EXPECT_FALSE(read_lines("\n\n", "/v1/completions").has_value());
  std::string many;
  for (std::size_t i = 0; i <= kMaxLines; ++i) many += "{}\n";
  EXPECT_FALSE(read_lines(many, "/v1/completions").has_value());
}

TEST(BatchLinesTest, Results) {
  EXPECT_EQ(answer_line("r", "a", 200, R"({"x":1})").text,
            R"({"id":"r","custom_id":"a","response":{"status_code":200,"request_id":"r",)"
            R"("body":{"x":1}},"error":null})");
  EXPECT_EQ(error_line("r", "", "c", "m"),
            R"({"id":"r","custom_id":null,"response":null,"error":{"code":"c","message":"m"}})");
  EXPECT_TRUE(is_batch_endpoint("/v1/responses"));
  EXPECT_TRUE(is_batch_endpoint("/v1/embeddings"));
  EXPECT_FALSE(is_batch_endpoint("/v1/moderations"));
}

TEST(BatchLinesTest, TokensByTheWordsOfEachRoute) {
  const LineUsage expected{10, 4, 7, 2};
  EXPECT_EQ(answer_line("r", "a", 200,
                        R"({"usage": {"prompt_tokens": 10, "completion_tokens": 7,
                            "prompt_tokens_details": {"cached_tokens": 4},
                            "completion_tokens_details": {"reasoning_tokens": 2}}})")
                .usage,
            expected);
  EXPECT_EQ(answer_line("r", "a", 200,
                        R"({"usage": {"input_tokens": 10, "output_tokens": 7,
                            "input_tokens_details": {"cached_tokens": 4},
                            "output_tokens_details": {"reasoning_tokens": 2}}})")
                .usage,
            expected);
  EXPECT_EQ(read_usage(to_json(expected)), expected);
  EXPECT_EQ(to_json(expected)["total_tokens"], 17);
  for (const char* body :
       {R"({"usage": null})", R"({"usage": {"input_tokens": "x"}})", "[]", "x"}) {
    EXPECT_EQ(answer_line("r", "a", 200, body).usage, LineUsage()) << body;
  }
  EXPECT_EQ(answer_line("r", "a", 400, R"({"usage": {"input_tokens": 1}})").usage, LineUsage());
}

}  // namespace
}  // namespace paceline::batch
