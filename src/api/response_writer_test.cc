#include "api/response_writer.h"

#include <gmock/gmock.h>

namespace paceline::api {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

class ResponseWriterTest : public testing::Test {
 protected:
  ResponseWriterTest() { take(writer_.open()); }

  void take(const ResponseWriter::Events& events) {
    for (const Json& event : events) events_.push_back(event);
  }
  void say(const std::string& text) { take(writer_.push({text, "", {}}, {})); }
  void think(const std::string& text) { take(writer_.push({"", text, {}}, {})); }
  void call(std::uint32_t index, const std::string& name, const std::string& arguments) {
    ToolCallDelta delta{index, name.empty() ? "" : "call_" + name, name, arguments};
    take(writer_.push({"", "", {delta}}, {}));
  }
  void end(bool is_cut = false) { take(writer_.finish({is_cut, {10, 4, 6}, 1, 1700000005})); }

  /// Without "response.".
  std::vector<std::string> types() const {
    std::vector<std::string> types;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      EXPECT_EQ(events_[i]["sequence_number"], i);
      const std::string type = events_[i]["type"];
      EXPECT_THAT(type, StartsWith("response."));
      types.push_back(type.substr(9));
    }
    return types;
  }

  ResponseWriter writer_{{"resp_abc", 1700000000, "m"}, {{"temperature", 0.5}}};
  std::vector<Json> events_;
};

TEST_F(ResponseWriterTest, AMessage) {
  say("Hel");
  say("lo");
  end();
  EXPECT_THAT(types(),
              ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                          "output_text.delta", "output_text.delta", "output_text.done",
                          "content_part.done", "output_item.done", "completed"));
  EXPECT_EQ(events_[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events_[0]["response"]["output"], Json::array());
  EXPECT_EQ(events_[4]["item_id"], "msg_abc00");
  EXPECT_EQ(events_[4]["delta"], "Hel");
  EXPECT_EQ(events_[6]["text"], "Hello");
  const Json& response = writer_.response();
  EXPECT_EQ(events_.back()["response"], response);
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["completed_at"], 1700000005);
  EXPECT_EQ(response["temperature"], 0.5);
  EXPECT_EQ(response["store"], false);
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(response["output"][0]["status"], "completed");
  EXPECT_EQ(response["usage"]["total_tokens"], 14);
  EXPECT_EQ(response["usage"]["input_tokens_details"]["cached_tokens"], 6);
  EXPECT_EQ(response["usage"]["output_tokens_details"]["reasoning_tokens"], 1);
  EXPECT_TRUE(writer_.open().empty());
}

TEST_F(ResponseWriterTest, ThoughtsThenTextThenTwoCalls) {
  think("hm");
  EXPECT_TRUE(writer_.is_reasoning());
  say("ok");
  EXPECT_FALSE(writer_.is_reasoning());
  call(0, "f", "{\"a\":");
  call(0, "", "1}");
  call(1, "g", "{}");
  end();
  EXPECT_THAT(types(),
              ElementsAre("created", "in_progress",  //
                          "output_item.added", "content_part.added", "reasoning_text.delta",
                          "reasoning_text.done", "content_part.done", "output_item.done",  //
                          "output_item.added", "content_part.added", "output_text.delta",
                          "output_text.done", "content_part.done", "output_item.done",  //
                          "output_item.added", "function_call_arguments.delta",
                          "function_call_arguments.delta", "function_call_arguments.done",
                          "output_item.done",  //
                          "output_item.added", "function_call_arguments.delta",
                          "function_call_arguments.done", "output_item.done", "completed"));
  const Json& output = writer_.response()["output"];
  ASSERT_EQ(output.size(), 4U);
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["content"][0]["text"], "hm");
  EXPECT_EQ(output[2]["arguments"], "{\"a\":1}");
  EXPECT_EQ(output[2]["call_id"], "call_f");
  EXPECT_EQ(output[3]["name"], "g");
  EXPECT_EQ(output[3]["id"], "fc_abc03");
  EXPECT_EQ(events_.at(19)["output_index"], 3);
}

TEST_F(ResponseWriterTest, OneThatIsCut) {
  say("Hel");
  end(true);
  EXPECT_EQ(types().back(), "incomplete");
  const Json& response = writer_.response();
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
  EXPECT_TRUE(response["completed_at"].is_null());
}

TEST_F(ResponseWriterTest, NothingSaidIsAnEmptyMessage) {
  end();
  EXPECT_EQ(writer_.response()["output"][0]["content"][0]["text"], "");
}

TEST_F(ResponseWriterTest, AFailureIsTheLastEvent) {
  say("Hel");
  ApiError error;
  error.status = 503;
  error.message = "gone";
  take(writer_.fail(error));
  EXPECT_EQ(types().back(), "failed");
  const Json& response = events_.back()["response"];
  EXPECT_EQ(response["status"], "failed");
  EXPECT_EQ(response["error"]["code"], "server_error");
  EXPECT_EQ(response["error"]["message"], "gone");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
}

TEST_F(ResponseWriterTest, LogprobsGoWithTheirText) {
  take(writer_.push({"", "hm", {}}, {{{"hm", -1.0F}}}));
  take(writer_.push({}, {{{"Hel", -0.5F}}}));
  take(writer_.push({"Hello", "", {}}, {{{"lo", -0.25F}}}));
  end();
  const Json& part = writer_.response()["output"][1]["content"][0];
  ASSERT_EQ(part["logprobs"].size(), 2U) << part;
  EXPECT_EQ(part["logprobs"][0]["token"], "Hel");
  EXPECT_EQ(part["logprobs"][1]["logprob"], -0.25);
}

TEST_F(ResponseWriterTest, EventsHaveTheirNames) {
  EXPECT_THAT(named_sse_event(events_[0]),
              StartsWith("event: response.created\ndata: {\"type\":\"response.created\","));
}

}  // namespace
}  // namespace paceline::api
