#include "obs/span.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::obs {
namespace {

using nlohmann::json;

TEST(SpanTest, TheFormThatReceiversRead) {
  Span parent;
  parent.context = *parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  parent.name = "POST /v1/completions";
  parent.kind = SpanKind::kServer;
  parent.begin_ns = 1'700'000'000'123'456'789;
  parent.end_ns = parent.begin_ns + 5;
  parent.attributes = {
      {"text", std::string("a\"b")}, {"count", std::int64_t{7}}, {"share", 0.5}, {"done", true}};
  Span child = parent;
  child.context = child_of(parent.context);
  child.parent = parent.context.parent_id;
  child.kind = SpanKind::kInternal;
  child.has_failed = true;
  const std::array both = {parent, child};
  const json body = json::parse(otlp_json(both, "mine", "1.2"));
  const json& resource = body["resourceSpans"][0];
  EXPECT_EQ(resource["resource"]["attributes"][0],
            json::parse(R"({"key": "service.name", "value": {"stringValue": "mine"}})"));
  const json& spans = resource["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0]["traceId"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(spans[0]["spanId"], "b7ad6b7169203331");
  EXPECT_FALSE(spans[0].contains("parentSpanId"));
  EXPECT_FALSE(spans[0].contains("status"));
  EXPECT_EQ(spans[0]["kind"], 2);
  EXPECT_EQ(spans[0]["startTimeUnixNano"], "1700000000123456789");
  EXPECT_EQ(spans[0]["endTimeUnixNano"], "1700000000123456794");
  EXPECT_EQ(spans[0]["attributes"], json::parse(R"([
      {"key": "text", "value": {"stringValue": "a\"b"}}, {"key": "count", "value": {"intValue": "7"}},
      {"key": "share", "value": {"doubleValue": 0.5}}, {"key": "done", "value": {"boolValue": true}}])"));
  EXPECT_EQ(spans[1]["traceId"], spans[0]["traceId"]);
  EXPECT_EQ(spans[1]["parentSpanId"], spans[0]["spanId"]);
  EXPECT_NE(spans[1]["spanId"], spans[0]["spanId"]);
  EXPECT_EQ(spans[1]["status"]["code"], 2);
}

}  // namespace
}  // namespace paceline::obs
