#include "api/responses.h"

#include <gtest/gtest.h>

namespace paceline::api {
namespace {

const ResponseHead kHead = {"chatcmpl-1", 1700000000, "m"};

TEST(ResponsesTest, ChatCompletion) {
  ChatAnswer answer;
  answer.message.content = "hi";
  answer.finish_reason = "stop";
  EXPECT_EQ(dump(chat_completion(kHead, {&answer, 1}, {5, 2, 4})),
            R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m",)"
            R"("choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null},)"
            R"("logprobs":null,"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,)"
            R"("prompt_tokens_details":{"cached_tokens":4}}})");
}

TEST(ResponsesTest, ToolCallsAndReasoning) {
  ChatAnswer answer;
  answer.message.reasoning = "hm";
  answer.message.tool_calls = {{0, "call_1", "f", "{}"}};
  const Json message = chat_completion(kHead, {&answer, 1}, {})["choices"][0]["message"];
  EXPECT_EQ(message.dump(),
            R"({"role":"assistant","content":null,"refusal":null,"reasoning_content":"hm",)"
            R"("tool_calls":[{"id":"call_1","type":"function",)"
            R"("function":{"name":"f","arguments":"{}"}}]})");
}

TEST(ResponsesTest, ChunksOfAChat) {
  ChatChunk chunk;
  chunk.opens = true;
  EXPECT_EQ(dump(chat_chunk(kHead, chunk, false)),
            R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,)"
            R"("model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},)"
            R"("logprobs":null,"finish_reason":null}]})");
  chunk.opens = false;
  chunk.index = 2;
  chunk.finish_reason = "length";
  const Json last = chat_chunk(kHead, chunk, true);
  EXPECT_EQ(last["choices"][0].dump(),
            R"({"index":2,"delta":{},"logprobs":null,"finish_reason":"length"})");
  EXPECT_TRUE(last["usage"].is_null());
  chunk.delta.tool_calls = {{1, "", "", "{\"a"}};
  EXPECT_EQ(chat_chunk(kHead, chunk, false)["choices"][0]["delta"].dump(),
            R"({"tool_calls":[{"index":1,"function":{"arguments":"{\"a"}}]})");
  const Json usage = usage_chunk(kHead, true, {5, 2, 0});
  EXPECT_EQ(usage["choices"], Json::array());
  EXPECT_EQ(usage["usage"]["total_tokens"], 7);
}

TEST(ResponsesTest, Completions) {
  CompletionAnswer answer;
  answer.text = "hi";
  answer.finish_reason = "length";
  answer.logprobs = {{{{"hi", -1}, true, {}}}};
  const Json json = text_completion({"cmpl-1", 1, "m"}, {&answer, 1}, {1, 1, 0});
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["choices"][0].dump(),
            R"({"index":0,"text":"hi","logprobs":{"tokens":["hi"],"token_logprobs":[-1.0],)"
            R"("top_logprobs":null,"text_offset":[0]},"finish_reason":"length"})");
  CompletionChunk chunk;
  chunk.text = "x";
  EXPECT_EQ(completion_chunk(kHead, chunk, false)["choices"][0].dump(),
            R"({"index":0,"text":"x","logprobs":null,"finish_reason":null})");
}

TEST(ResponsesTest, DeltasAddUp) {
  AnswerDelta whole;
  whole.append({"a", "b", {{0, "id", "f", "{"}}});
  whole.append({"c", "", {{0, "", "", "}"}, {1, "id2", "g", ""}}});
  EXPECT_EQ(whole, (AnswerDelta{"ac", "b", {{0, "id", "f", "{}"}, {1, "id2", "g", ""}}}));
}

TEST(ResponsesTest, ModelsAndEvents) {
  const ModelCard card = {"m", 5, 4096, "ready", 2};
  EXPECT_EQ(model_list({&card, 1}).dump(),
            R"({"object":"list","data":[{"id":"m","object":"model","created":5,)"
            R"("owned_by":"paceline","max_model_len":4096,"status":"ready","stages":2}]})");
  EXPECT_EQ(model_object({"m", 0, 0, "unloaded"}).dump(),
            R"({"id":"m","object":"model","created":0,"owned_by":"paceline","status":"unloaded"})");
  EXPECT_EQ(sse_event(Json{{"a", "line\nbreak \xFF"}}),
            "data: {\"a\":\"line\\nbreak \xEF\xBF\xBD\"}\n\n");
}

}  // namespace
}  // namespace paceline::api
