#include "page/page.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

namespace paceline::page {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Asset kAsset = {"/", "text/html; charset=utf-8", "\"abc\"", "plain", "packed"};

TEST(PageTest, AsItIsOrGzipped) {
  for (const char* accepted : {"gzip", "br, gzip", "deflate,gzip;q=0.5", "gzip;q=1.0 , br"}) {
    const auto response = respond_with(kAsset, {{"accept-encoding", accepted}});
    EXPECT_EQ(response.body, "packed") << accepted;
    EXPECT_EQ(response.headers.at("Content-Encoding"), "gzip");
  }
  for (const char* accepted : {"", "br", "gzip;q=0", "gzip; q=0.0", "xgzip", ",,"}) {
    const auto response = respond_with(kAsset, {{"accept-encoding", accepted}});
    EXPECT_EQ(response.body, "plain") << accepted;
    EXPECT_FALSE(response.headers.contains("Content-Encoding"));
  }
  EXPECT_EQ(respond_with(kAsset, {}).body, "plain");
}

TEST(PageTest, WhatTheClientHasIsNotSentAgain) {
  for (const char* known : {"\"abc\"", "W/\"abc\"", "\"x\", \"abc\"", "*"}) {
    const auto response = respond_with(kAsset, {{"if-none-match", known}});
    EXPECT_EQ(response.status, 304) << known;
    EXPECT_EQ(response.body, "");
    EXPECT_EQ(response.headers.at("ETag"), "\"abc\"");
  }
  for (const char* other : {"\"x\"", "abc", ""}) {
    EXPECT_EQ(respond_with(kAsset, {{"if-none-match", other}}).status, 200) << other;
  }
}

TEST(PageTest, ThePageKeepsToItself) {
  const auto response = respond_with(kAsset, {});
  const std::string& policy = response.headers.at("Content-Security-Policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_THAT(policy, Not(HasSubstr("http")));
  EXPECT_EQ(response.headers.at("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(response.headers.at("Referrer-Policy"), "no-referrer");
}

TEST(PageTest, AllFilesAreThere) {
  std::set<std::string> paths;
  for (const Asset& asset : assets()) {
    EXPECT_TRUE(paths.insert(std::string(asset.path)).second) << asset.path << " twice";
    EXPECT_FALSE(asset.bytes.empty()) << asset.path;
    EXPECT_EQ(asset.gzipped.substr(0, 2), "\x1f\x8b") << asset.path;
    EXPECT_EQ(asset.etag.front(), '"');
  }
  for (const char* path : {"/", "/assets/style.css", "/assets/app.js", "/assets/icon.svg",
                           "/assets/uplot.js", "/assets/uplot.css", "/assets/licenses.txt"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
}

TEST(PageTest, NothingInlineAndNothingFromElsewhere) {
  for (const Asset& asset : assets()) {
    const std::string text(asset.bytes);
    if (asset.path.find("uplot") != std::string_view::npos) continue;
    for (const char* bad : {"innerHTML", "insertAdjacentHTML", "document.write", "eval(",
                            "new Function", "onclick=", "style=", "localStorage"}) {
      EXPECT_THAT(text, Not(HasSubstr(bad))) << asset.path;
    }
    // The icon names its format by an address that nobody asks for, and notices name origins.
    if (asset.path.ends_with(".svg") || asset.path.ends_with(".txt")) continue;
    for (const char* bad : {"src=\"http", "href=\"http", "from \"http", "url(http", "src=\"//"}) {
      EXPECT_THAT(text, Not(HasSubstr(bad))) << asset.path;
    }
  }
}

TEST(PageTest, RoutesNeedNoKey) {
  EXPECT_EQ(routes().size(), assets().size());
  for (const http::Route& route : routes()) {
    EXPECT_EQ(route.method, "GET");
    EXPECT_FALSE(route.policy.needs_key) << route.pattern;
  }
}

}  // namespace
}  // namespace paceline::page
