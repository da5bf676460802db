#include "cli/trace_export.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace paceline::cli {
namespace {

class TraceExportTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    ::unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    ::unsetenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  }
};

TEST_F(TraceExportTest, TheFlagGoesBeforeTheVariables) {
  EXPECT_EQ(traces_url(""), "");
  ::setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/", 1);
  EXPECT_EQ(traces_url(""), "http://a:4318/v1/traces");
  ::setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:4318/own", 1);
  EXPECT_EQ(traces_url(""), "http://b:4318/own");
  EXPECT_EQ(traces_url("http://c:4318"), "http://c:4318/v1/traces");
}

TEST_F(TraceExportTest, OffUnlessAsked) {
  obs::Metrics metrics;
  EXPECT_EQ(*export_traces("", metrics), nullptr);
  EXPECT_NE(*export_traces("http://127.0.0.1:1/v1/traces", metrics), nullptr);
  const auto wrong = export_traces("grpc://a", metrics);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(wrong.error().message().find("--otlp-endpoint"), std::string::npos);
}

}  // namespace
}  // namespace paceline::cli
