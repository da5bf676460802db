#include "obs/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline::obs {
namespace {

const std::string kValid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(Traceparent, IsParsedAndWrittenAgain) {
  const auto context = parse_traceparent(kValid);
  ASSERT_TRUE(context);
  EXPECT_TRUE(context->is_sampled);
  EXPECT_EQ(context->trace_id[0], 0x0a);
  EXPECT_EQ(context->parent_id[7], 0x31);
  EXPECT_EQ(format_traceparent(*context), kValid);
  EXPECT_EQ(trace_id_text(*context), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(span_id_text(*context), "b7ad6b7169203331");
}

TEST(Traceparent, OnlyTheSampledFlagIsKnown) {
  std::string text = kValid;
  text.replace(53, 2, "fe");
  ASSERT_TRUE(parse_traceparent(text));
  EXPECT_FALSE(parse_traceparent(text)->is_sampled);
}

TEST(Traceparent, LaterVersionsMayBeLonger) {
  const std::string later = "cc" + kValid.substr(2);
  EXPECT_TRUE(parse_traceparent(later));
  EXPECT_TRUE(parse_traceparent(later + "-what-comes"));
  EXPECT_FALSE(parse_traceparent(later + "x"));
  EXPECT_FALSE(parse_traceparent(kValid + "-what-comes"));
}

TEST(Traceparent, WhatIsNotValidIsNothing) {
  for (std::size_t i = 0; i < kValid.size(); ++i) {
    std::string text = kValid;
    text[i] = 'X';
    EXPECT_FALSE(parse_traceparent(text)) << i;
    EXPECT_FALSE(parse_traceparent(kValid.substr(0, i))) << i;
  }
  EXPECT_FALSE(parse_traceparent("ff" + kValid.substr(2)));
  EXPECT_FALSE(parse_traceparent("00-" + std::string(32, '0') + "-b7ad6b7169203331-01"));
  EXPECT_FALSE(parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"));
  EXPECT_FALSE(parse_traceparent("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"));
}

TEST(TraceContext, ChildrenStayInTheTrace) {
  const TraceContext first = new_trace(true);
  const TraceContext child = child_of(first);
  EXPECT_EQ(child.trace_id, first.trace_id);
  EXPECT_NE(child.parent_id, first.parent_id);
  EXPECT_TRUE(child.is_sampled);
  EXPECT_NE(new_trace(false).trace_id, first.trace_id);
  EXPECT_EQ(parse_traceparent(format_traceparent(child)), child);
}

}  // namespace
}  // namespace paceline::obs
