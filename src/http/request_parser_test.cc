// The pure parts: parser, target, router, admission, texts.
#include "http/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/admission.h"
#include "http/byte_budget.h"
#include "http/response_text.h"
#include "http/router.h"
#include "http/target.h"

namespace paceline::http {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using State = RequestParser::State;

/// Feeds `bytes` in pieces, as a connection does; what was not taken is given again.
std::string feed_in_pieces(RequestParser& parser, std::string_view bytes, std::size_t piece) {
  std::string buffer;
  while (!bytes.empty() && parser.state() != State::kFailed && parser.state() != State::kComplete) {
    const std::size_t count = std::min(piece, bytes.size());
    buffer += bytes.substr(0, count);
    bytes.remove_prefix(count);
    for (State before = State::kFailed; before != parser.state();) {
      before = parser.state();
      buffer.erase(0, parser.feed(buffer));
      if (parser.state() == State::kComplete || parser.state() == State::kFailed) break;
    }
  }
  return buffer + std::string(bytes);
}

TEST(RequestParser, GivesTheSameInPiecesOfAnySize) {
  const std::string request =
      "\r\nPOST /a?b=c HTTP/1.1\r\nHost: x\r\nA: 1\r\na: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n4;e=1\r\ndefg\r\n0\r\nT: 1\r\n\r\n";
  for (std::size_t piece = 1; piece <= request.size() + 1; ++piece) {
    RequestParser parser(4096);
    parser.limit_body(7);
    EXPECT_EQ(feed_in_pieces(parser, request + "GET next", piece), "GET next") << piece;
    ASSERT_EQ(parser.state(), State::kComplete) << piece;
    EXPECT_EQ(parser.head().method, "POST");
    EXPECT_EQ(parser.head().target, "/a?b=c");
    EXPECT_EQ(parser.head().headers.at("a"), "1, 2");
    EXPECT_FALSE(parser.head().headers.contains("t")) << "trailers are dropped";
    EXPECT_TRUE(parser.head().keeps_alive);
    EXPECT_EQ(parser.take_body(), "abcdefg");
  }
}

TEST(RequestParser, StopsAtTheHead) {
  RequestParser parser(4096);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n";
  EXPECT_EQ(parser.feed(head + "abcGET"), head.size());
  EXPECT_EQ(parser.state(), State::kBody);
  EXPECT_EQ(parser.head().content_length, 3U);
  parser.limit_body(3);
  EXPECT_EQ(parser.feed("abcGET"), 3U);
  EXPECT_EQ(parser.state(), State::kComplete);
}

TEST(RequestParser, ABodyOverItsLimitFails) {
  RequestParser parser(4096);
  parser.feed("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n");
  parser.limit_body(3);
  parser.feed("abcd");
  EXPECT_EQ(parser.state(), State::kFailed);
  EXPECT_EQ(parser.refusal().status, 413);
}

TEST(Target, TakesApart) {
  const auto target = parse_target("/a/b%2Fc/?x=1&y&x=2&&z=%41+b");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/a/b/c/");
  EXPECT_THAT(target->segments, ElementsAre("a", "b/c", ""));
  EXPECT_EQ(target->query.at("x"), "2");
  EXPECT_EQ(target->query.at("y"), "");
  EXPECT_EQ(target->query.at("z"), "A b");
  EXPECT_EQ(parse_target("HTTP://h:1/p")->authority, "h:1");
  EXPECT_EQ(parse_target("http://h?x=1")->path, "/");
  for (const char* bad : {"", "x", "?", "/%", "/%4", "/%4g", "/%0a", "/a#b", "/?%", "host:80"}) {
    EXPECT_FALSE(parse_target(bad)) << bad;
  }
}

TEST(Router, FindsTheFirstThatFits) {
  const Handler nothing = [](const std::shared_ptr<Exchange>&) {};
  Router router;
  router.add("GET", "/files/{id}", nothing);
  router.add("DELETE", "/files/{id}", nothing);
  router.add("GET", "/files/{id}/content", nothing);
  router.add("GET", "/models/{name...}", nothing);
  const auto found = [&router](const char* method, const char* path) {
    const auto target = parse_target(path);
    Router::Found result = router.find(method, target->segments);
    std::string text = result.route ? result.route->method + " " + result.route->pattern : "-";
    for (const auto& [name, value] : result.values) text += " " + name + "=" + value;
    return text;
  };
  EXPECT_EQ(found("GET", "/files/1"), "GET /files/{id} id=1");
  EXPECT_EQ(found("HEAD", "/files/1"), "GET /files/{id} id=1");
  EXPECT_EQ(found("DELETE", "/files/1"), "DELETE /files/{id} id=1");
  EXPECT_EQ(found("GET", "/files/a%2Fb/content"), "GET /files/{id}/content id=a/b");
  EXPECT_EQ(found("GET", "/models/a/b"), "GET /models/{name...} name=a/b");
  for (const char* path :
       {"/files", "/files/", "/files/1/", "/models/", "/models", "/", "//files/1"}) {
    EXPECT_EQ(found("GET", path), "-") << path;
  }
  EXPECT_THAT(router.find("PUT", {"files", "1"}).methods, ElementsAre("GET", "HEAD", "DELETE"));
}

TEST(Admission, HidesTheKeyFromHandlers) {
  Router router;
  router.add("GET", "/", [](const std::shared_ptr<Exchange>&) {});
  const HostRules hosts({.address = "127.0.0.1"});
  RequestHead head;
  head.method = "GET";
  head.target = "/";
  head.headers = {{"host", "localhost"}, {"authorization", "Bearer secret"}, {"a", "b"}};
  const Admission admission = admit(head, {router, hosts, nullptr, 100});
  EXPECT_NE(admission.route, nullptr);
  EXPECT_EQ(admission.max_body_bytes, 100U);
  EXPECT_FALSE(admission.request.headers.contains("authorization"));
  EXPECT_EQ(admission.request.headers.at("a"), "b");
}

TEST(ResponseText, LeavesOutWhatWouldBreakTheHead) {
  Response response;
  response.headers = {
      {"x", "a\r\nSet-Cookie: b"}, {"y:", "1"}, {"Content-Length", "9"}, {"Ok", "v"}};
  response.body = "12345";
  const std::string text = head_text(response, {.request_id = "id", .date = "D"});
  EXPECT_EQ(text,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\ndate: D\r\n"
            "x-request-id: id\r\nx-content-type-options: nosniff\r\nok: v\r\n\r\n");
}

TEST(ResponseText, ErrorsAreJsonWhateverTheBytes) {
  const Response response = error_response(500, "a\xff\"\n");
  EXPECT_THAT(response.body, HasSubstr(R"(\"\n)"));
  EXPECT_THAT(response.body, HasSubstr(R"("type":"server_error")"));
  EXPECT_THAT(response.body, HasSubstr(R"("code":null)"));
}

TEST(ResponseText, Dates) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST(ByteBudget, LeasesAreGivenBack) {
  const auto budget = std::make_shared<ByteBudget>(10);
  {
    ByteLease first(budget);
    EXPECT_TRUE(first.grow_to(4));
    EXPECT_TRUE(first.grow_to(6));
    ByteLease second(budget);
    EXPECT_FALSE(second.grow_to(5));
    EXPECT_TRUE(second.grow_to(4));
    const ByteLease moved = std::move(first);
    EXPECT_EQ(budget->used(), 10U);
  }
  EXPECT_EQ(budget->used(), 0U);
}

}  // namespace
}  // namespace paceline::http
