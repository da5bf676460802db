#include "http/local_exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <string_view>

namespace paceline::http {
namespace {

class Silent final : public LocalExchange {
 public:
  using LocalExchange::LocalExchange;
  void respond(Response /*response*/) override { forget_gone(); }
  void begin_stream(Response /*head*/) override {}
  bool write(std::string_view /*bytes*/) override { return false; }
  void end() override {}
  void abort() override {}
};

TEST(LocalExchangeTest, WhoWantsToKnowIsToldOnce) {
  Request request;
  request.path = "/x";
  Silent exchange(request);
  EXPECT_EQ(exchange.request().path, "/x");
  int first = 0;
  int second = 0;
  exchange.on_gone([&first] { ++first; });
  exchange.on_gone([&second] { ++second; });
  EXPECT_TRUE(exchange.go());
  EXPECT_FALSE(exchange.go());
  EXPECT_EQ(first, 0) << "was replaced";
  EXPECT_EQ(second, 1);
  exchange.on_gone([&first] { ++first; });
  EXPECT_EQ(first, 1) << "at once, as it has gone";
}

TEST(LocalExchangeTest, AfterTheAnswerNobodyIsTold) {
  Silent exchange{Request()};
  const auto held = std::make_shared<int>(0);
  exchange.on_gone([held] { ++*held; });
  exchange.respond({});
  EXPECT_EQ(held.use_count(), 1) << "what the call holds is let go";
  EXPECT_FALSE(exchange.go());
  EXPECT_EQ(*held, 0);
}

}  // namespace
}  // namespace paceline::http
