#include "rest/respond.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "http/local_exchange.h"

namespace paceline::rest {
namespace {

using nlohmann::ordered_json;
using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

class Answered final : public http::LocalExchange {
 public:
  Answered() : LocalExchange(http::Request()) {}
  void respond(http::Response response) override { response_ = std::move(response); }
  void begin_stream(http::Response) override { FAIL(); }
  bool write(std::string_view) override { return false; }
  void end() override { FAIL(); }
  void abort() override { FAIL(); }

  http::Response response_;
};

TEST(Respond, AnErrorHasItsStatusItsBodyAndItsHeaders) {
  Answered exchange;
  respond(exchange, api::still_loading("m"));
  const http::Response& response = exchange.response_;
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_THAT(response.headers, Contains(Key("Retry-After")));
  EXPECT_EQ(ordered_json::parse(response.body), api::to_json(api::still_loading("m")));

  respond(exchange, api::not_loaded("m", "unloaded"));
  EXPECT_THAT(exchange.response_.headers, Contains(Pair("x-should-retry", "false")));
  EXPECT_THAT(exchange.response_.headers, Not(Contains(Key("Retry-After"))));

  respond(exchange, api::invalid_field("top_p", "expected a number"));
  EXPECT_EQ(exchange.response_.status, 400);
  EXPECT_EQ(ordered_json::parse(exchange.response_.body)["error"]["param"], "top_p");
}

TEST(Respond, ABodyIsSentAsItIsAndIsUtf8) {
  Answered exchange;
  respond(exchange, ordered_json{{"b", "\xC3\xA4"}, {"a", "\xFF"}});
  EXPECT_EQ(exchange.response_.status, 200);
  EXPECT_EQ(exchange.response_.content_type, "application/json");
  EXPECT_EQ(exchange.response_.body, "{\"b\":\"\xC3\xA4\",\"a\":\"\xEF\xBF\xBD\"}");
  EXPECT_TRUE(exchange.response_.headers.empty());
}

}  // namespace
}  // namespace paceline::rest
