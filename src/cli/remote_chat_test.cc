#include "cli/remote_chat.h"

#include <gmock/gmock.h>

namespace paceline::cli {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

TEST(ReadChatEventTest, TextThoughtsAndEnds) {
  const auto text = read_chat_event(R"({"choices": [{"delta": {"content": "a"}}]})");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->text, "a");
  EXPECT_FALSE(text->is_last);
  const auto thought =
      read_chat_event(R"({"choices": [{"delta": {"content": null, "reasoning_content": "b"}}]})");
  EXPECT_EQ(thought->text, "");
  EXPECT_EQ(thought->thought, "b");
  EXPECT_TRUE(read_chat_event(R"({"choices": [{"delta": {}, "finish_reason": "stop"}]})")->is_last);
  EXPECT_TRUE(read_chat_event("[DONE]")->is_last);
  EXPECT_FALSE(read_chat_event(R"({"choices": [], "usage": {}})")->is_last);
}

TEST(ReadChatEventTest, ErrorsAreSentences) {
  const auto failed = read_chat_event(R"({"error": {"message": "the worker is gone"}})");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "the server: the worker is gone");
  EXPECT_THAT(read_chat_event("<html>").error().message(), HasSubstr("'<html>': expected"));
}

TEST(ReadChatEventTest, AnyJsonEnds) {
  for (const char* const data :
       {"{}", R"({"choices": 5})", R"({"choices": [5]})", R"({"choices": [{"delta": 5}]})",
        R"({"choices": [{"delta": {"content": 5}}]})", R"({"choices": [{"finish_reason": 5}]})",
        R"({"error": null, "choices": {}})"}) {
    const auto event = read_chat_event(data);
    ASSERT_TRUE(event) << data;
    EXPECT_EQ(event->text, "") << data;
    EXPECT_FALSE(event->is_last) << data;
  }
}

TEST(FirstModelTest, TheFirstThatIsReady) {
  const auto first = [](const char* text) { return first_model(ordered_json::parse(text)); };
  EXPECT_EQ(first(R"({"data": [{"id": "a"}, {"id": "b"}]})").value(), "a");
  EXPECT_EQ(
      first(R"({"data": [{"id": "a", "status": "unloaded"}, {"id": "b", "status": "ready"}]})")
          .value(),
      "b");
  for (const char* const none :
       {"{}", R"({"data": 5})", R"({"data": [5, {}]})", R"({"data": [{"id": 5}]})"}) {
    EXPECT_FALSE(first(none)) << none;
  }
}

}  // namespace
}  // namespace paceline::cli
