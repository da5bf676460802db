// What is too large, too slow, too much, or no HTTP.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "http/http_testing.h"
#include "http/server.h"

namespace paceline::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// The answer to bytes after which the server is to close, and still to serve others.
TestResponse refused(TestServer& server, std::string_view bytes) {
  TestClient client(server.port());
  client.send(bytes);
  TestResponse response = client.read_response();
  EXPECT_TRUE(client.is_closed_by_server()) << bytes.substr(0, 80);
  EXPECT_TRUE(response.is_whole);
  EXPECT_THAT(response.body, HasSubstr(R"({"error":{)"));
  EXPECT_TRUE(response.headers.contains("x-request-id"));
  EXPECT_EQ(response.headers["connection"], "close");
  EXPECT_EQ(TestClient(server.port()).ask(get("/hello")).status, 200);
  return response;
}

TEST(Limits, BrokenHttp) {
  TestServer server;
  for (const std::string_view bytes : {
           "nonsense\r\n\r\n", "GET /hello\r\n\r\n",
           "GET  /hello HTTP/1.1\r\nHost: localhost\r\n\r\n",
           "GET hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
           "GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
           "GET /%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
           "GET /hello HTTP/1.1\r\nHost : localhost\r\n\r\n",
           "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n",
           "GET /hello HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: "
           "2\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
           "Transfer-Encoding: chunked\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
           "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "\x16\x03\x01\x02",  // a TLS client
       }) {
    EXPECT_EQ(refused(server, bytes).status, 400) << bytes;
  }
  EXPECT_EQ(refused(server, "GET / HTTP/3.0\r\n\r\n").status, 505);
  EXPECT_EQ(refused(server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status, 505);
}

TEST(Limits, CodingsThatOthersWouldReadOtherwise) {
  TestServer server;
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, gzip", "xchunked"}) {
    const TestResponse response =
        refused(server, fmt::format("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                    "application/json\r\nTransfer-Encoding: {}\r\n\r\n{}",
                                    coding, get("/hello")));
    EXPECT_EQ(response.status, 501) << coding;
  }
}

TEST(Limits, ALargeBodyIsRefusedBeforeItIsRead) {
  TestServer server;
  TestClient client(server.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 104857600\r\nExpect: 100-continue\r\n\r\n");
  const TestResponse response = client.read_response();
  EXPECT_EQ(response.status, 413);
  EXPECT_THAT(response.body, HasSubstr("33554432"));
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST(Limits, WhoSendsALargeBodyAllTheSameReadsWhy) {
  TestServer server;
  TestClient client(server.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 104857600\r\n\r\n");
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client.send(piece)) << i;
  EXPECT_EQ(client.read_response().status, 413);
}

TEST(Limits, OfARoute) {
  TestServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.ask(post("/small", std::string(64, 'x'))).status, 200);
  EXPECT_EQ(refused(server, post("/small", std::string(65, 'x'))).status, 413);
  std::string chunked =
      "POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 5; ++i) chunked += "10\r\n0123456789abcdef\r\n";
  EXPECT_EQ(refused(server, chunked).status, 413);
}

TEST(Limits, OfAllBodiesTogether) {
  TestServer server({.max_bodies_bytes = 100'000});
  TestClient first(server.port());
  first.send(post("/hold", std::string(80'000, 'x')));
  auto held = server.held.next();
  ASSERT_TRUE(held);
  EXPECT_EQ(refused(server, post("/echo", std::string(80'000, 'y'))).status, 503);
  held->respond({});
  held.reset();
  EXPECT_EQ(first.read_response().status, 200);
  EXPECT_EQ(first.ask(post("/echo", std::string(80'000, 'z'))).status, 200);
}

TEST(Limits, ChunkLinesAndTrailers) {
  TestServer server;
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(refused(server, head + "5;" + std::string(20'000, 'x')).status, 400);
  EXPECT_EQ(refused(server, head + "0\r\nA: " + std::string(20'000, 'x')).status, 400);
  EXPECT_EQ(refused(server, head + "ffffffffffffffffff\r\n").status, 400);
  EXPECT_EQ(refused(server, head + "ffffffffffffffff\r\nx").status, 413);
}

TEST(Limits, Headers) {
  TestServer server({.max_header_bytes = 4096});
  EXPECT_EQ(refused(server, get("/hello", "A: " + std::string(8000, 'x') + "\r\n")).status, 431);
  EXPECT_EQ(refused(server, get("/" + std::string(8000, 'x'))).status, 414);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += fmt::format("h{}: v\r\n", i);
  EXPECT_EQ(refused(server, get("/hello", many)).status, 431);
}

TEST(Limits, SlowHeaders) {
  TestServer server({.header_time = milliseconds(100)});
  EXPECT_EQ(refused(server, "GET /hello HT").status, 408);
}

TEST(Limits, SlowBodies) {
  TestServer server({.body_time = milliseconds(100)});
  EXPECT_EQ(refused(server,
                    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    "Content-Length: 10\r\n\r\n12345")
                .status,
            408);
}

TEST(Limits, ABodyThatKeepsComingMayTakeLonger) {
  TestServer server({.body_time = milliseconds(300), .min_body_rate = 1000});
  TestClient client(server.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 6000\r\n\r\n");
  for (int i = 0; i < 6; ++i) {
    client.send(std::string(1000, 'x'));
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_EQ(client.read_response().status, 200);
}

TEST(Limits, IdleConnections) {
  TestServer server({.idle_time = milliseconds(100)});
  TestClient silent(server.port());
  TestClient client(server.port());
  EXPECT_EQ(client.ask(get("/hello")).status, 200);
  client.send("\r\n");  // an empty line behind a request is no request
  EXPECT_TRUE(client.is_closed_by_server());
  EXPECT_TRUE(silent.is_closed_by_server());
  EXPECT_EQ(server.records().size(), 1U) << "there is nobody to answer";
}

TEST(Limits, Connections) {
  TestServer server({.max_connections = 2});
  TestClient first(server.port());
  TestClient second(server.port());
  EXPECT_EQ(first.ask(get("/hello")).status, 200);
  EXPECT_EQ(second.ask(get("/hello")).status, 200);
  TestClient third(server.port());
  const TestResponse response = third.ask(get("/hello"));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  EXPECT_TRUE(third.is_closed_by_server());
  EXPECT_EQ(first.ask(get("/hello")).status, 200);
}

TEST(Limits, RequestsThatWaitForAHandler) {
  ServerOptions options;
  options.handler_threads = 1;
  options.max_queued_requests = 1;
  Router router;
  Signal began;
  Signal go_on;
  router.add("GET", "/slow", [&](const std::shared_ptr<Exchange>& exchange) {
    began.set();
    go_on.wait();
    exchange->respond({});
  });
  const auto server = Server::start(std::move(options), std::move(router));
  ASSERT_TRUE(server);
  TestClient running((*server)->port());
  running.send(get("/slow"));
  ASSERT_TRUE(began.wait());
  TestClient waiting((*server)->port());
  waiting.send(get("/slow"));
  while ((*server)->counts().requests < 2) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(20));
  TestClient refused_one((*server)->port());
  const TestResponse response = refused_one.ask(get("/slow"));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  go_on.set();
  EXPECT_EQ(running.read_response().status, 200);
  EXPECT_EQ(waiting.read_response().status, 200);
}

TEST(Limits, AnythingAtAll) {
  TestServer server;
  unsigned state = 1;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = get("/hello") + post("/echo", "body") + get("/models/x?y=z");
    for (int changes = 0; changes < 1 + i % 7; ++changes) {
      state = state * 1664525U + 1013904223U;
      bytes[(state >> 8U) % bytes.size()] = static_cast<char>(state >> 24U);
    }
    TestClient client(server.port());
    client.send(bytes);
    client.end_sending();
    if (i % 3 == 0) {
      EXPECT_TRUE(client.is_closed_by_server()) << bytes;
    }
  }
  EXPECT_EQ(TestClient(server.port()).ask(get("/hello")).status, 200);
}

}  // namespace
}  // namespace paceline::http
