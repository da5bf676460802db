#include "http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "http/http_testing.h"

namespace paceline::http {
namespace {

using testing::HasSubstr;

Client client_of(const std::string& url, ClientOptions options = {}) {
  auto client = Client::make(url, std::move(options));
  EXPECT_TRUE(client.has_value()) << client.error().message();
  return *std::move(client);
}

TEST(Client, AsksAndReads) {
  TestServer server;
  Client client = client_of(server->url() + "/");
  const auto hello = client.ask({"GET", "/hello"});
  ASSERT_TRUE(hello.has_value()) << hello.error().message();
  EXPECT_EQ(hello->status, 200);
  EXPECT_EQ(hello->body, "hello");
  EXPECT_EQ(hello->content_type, "text/plain");
  const std::string body(3 << 20, 'x');
  EXPECT_EQ(client.ask({"POST", "/echo", "application/json", body})->body, body);
  EXPECT_EQ(client.ask({"GET", "/nothing"})->status, 404);
}

TEST(Client, TheUrlsPathComesFirst) {
  TestServer server;
  Client client = client_of(server->url() + "/models/org/");
  EXPECT_THAT(client.ask({"GET", "/m?x=1"})->body, HasSubstr("name=org/m;x=1"));
}

TEST(Client, AStreamComesInPieces) {
  TestServer server;
  Client client = client_of(server->url());
  std::string text;
  const auto done = client.ask({"GET", "/stream?count=3&bytes=2"}, [&text](std::string_view piece) {
    text += piece;
    return true;
  });
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_EQ(text, "xxxxxx");
  EXPECT_EQ(done->body, "");
  const auto cancelled =
      client.ask({"GET", "/stream?count=3&bytes=2"}, [](std::string_view) { return false; });
  EXPECT_EQ(cancelled.error().code(), ErrorCode::kCancelled);
}

/// Also where no byte comes, as in a long prefill.
TEST(Client, WhatIsStoppedIsClosed) {
  TestServer server;
  std::atomic<bool> stop = false;
  ClientOptions options;
  options.stop = &stop;
  Client client = client_of(server->url(), std::move(options));
  EXPECT_EQ(client.ask({"GET", "/hello"})->body, "hello");
  std::promise<void> gone;
  std::jthread stopper([&] {
    if (const auto exchange = server.held.next()) {
      exchange->on_gone([&gone] { gone.set_value(); });
      stop = true;
      gone.get_future().wait_for(std::chrono::seconds(10));
    }
  });
  const auto answer = client.ask({"GET", "/hold"});
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), ErrorCode::kCancelled);
  stopper.join();
}

TEST(Client, AnAnswerThatIsCutIsAnError) {
  TestServer server;
  Client client = client_of(server->url());
  std::jthread cutter([&server] {
    if (const auto exchange = server.held.next()) {
      exchange->begin_stream({});
      exchange->write("x");
      exchange->abort();
    }
  });
  const auto answer = client.ask({"GET", "/hold"});
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), ErrorCode::kUnavailable);
}

TEST(Client, SilenceEnds) {
  TestServer server;
  ClientOptions options;
  options.silence = std::chrono::milliseconds(50);
  const auto answer = client_of(server->url(), options).ask({"GET", "/hold"});
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(answer.error().message(), HasSubstr("127.0.0.1:"));
}

TEST(Client, WhereNobodyListens) {
  std::string url;
  {
    TestServer server;
    url = server->url();
  }
  EXPECT_EQ(client_of(url).ask({"GET", "/hello"}).error().code(), ErrorCode::kUnavailable);
}

TEST(Client, LargeAnswersAreRefused) {
  TestServer server;
  ClientOptions options;
  options.max_body_bytes = 3;
  EXPECT_FALSE(client_of(server->url(), options).ask({"GET", "/hello"}).has_value());
}

TEST(Client, WhatIsNoUrlIsRefused) {
  for (const char* url :
       {"", "localhost:8000", "ftp://x", "http://", "http://:80", "http://a b/", "http://x:port",
        "http://x:123456", "http://[::1", "http://x/a b", "http://x\r\n"}) {
    EXPECT_FALSE(Client::make(url, {}).has_value()) << url;
  }
  for (const char* url : {"http://x", "https://x.y:1/v1", "http://[::1]:80/"}) {
    EXPECT_TRUE(Client::make(url, {}).has_value()) << url;
  }
}

}  // namespace
}  // namespace paceline::http
