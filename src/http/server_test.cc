// Requests and answers as they should be.
#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "http/http_testing.h"

namespace paceline::http {
namespace {

using testing::HasSubstr;

TEST(Server, AnswersAndKeepsTheConnection) {
  TestServer server;
  TestClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    const TestResponse response = client.ask(get("/hello"));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "hello");
    EXPECT_TRUE(response.is_whole);
    EXPECT_EQ(response.headers.at("content-type"), "text/plain");
    EXPECT_FALSE(response.headers.contains("connection"));
  }
  EXPECT_EQ(server->counts().connections, 1U);
}

TEST(Server, EchoesABody) {
  TestServer server;
  TestClient client(server.port());
  std::string body(3 << 20, 'a');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 23);
  EXPECT_EQ(client.ask(post("/echo", body)).body, body);
  EXPECT_EQ(client.ask(post("/echo", "short")).body, "short");
}

TEST(Server, TakesChunkedBodiesInPieces) {
  TestServer server;
  TestClient client(server.port());
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nHost: evil\r\n\r\n";
  for (const char byte : request) client.send(std::string_view(&byte, 1));
  EXPECT_EQ(client.read_response().body, "hello world");
}

TEST(Server, DecodesPathAndQuery) {
  TestServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.ask(get("/models/org/a%20b?x=1+2&y=%3D")).body, "name=org/a b;x=1 2;y==;");
  EXPECT_EQ(client.ask(get("http://localhost/models/m")).body, "name=m;");
}

TEST(Server, UnknownPathAndMethod) {
  TestServer server;
  TestClient client(server.port());
  const TestResponse unknown = client.ask(get("/nothing"));
  EXPECT_EQ(unknown.status, 404);
  const auto error = nlohmann::json::parse(unknown.body).at("error");
  EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("/nothing"));
  EXPECT_EQ(error.at("type"), "invalid_request_error");
  EXPECT_TRUE(error.at("param").is_null());
  EXPECT_EQ(error.at("code"), "unknown_path");

  const TestResponse method = client.ask(get("/echo"));
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(client.ask(get("/hello")).status, 200) << "the connection goes on";
}

TEST(Server, HeadAndOptions) {
  TestServer server;
  TestClient client(server.port());
  client.send("HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const TestResponse head = client.read_response(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "5");
  client.send("HEAD /stream?count=3&bytes=3 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_response(true).headers.at("transfer-encoding"), "chunked");
  const TestResponse options = client.ask("OPTIONS /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(client.ask("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 204);
  EXPECT_EQ(client.ask(get("/hello")).body, "hello");
}

TEST(Server, HttpOneZero) {
  TestServer server;
  TestClient client(server.port());
  const TestResponse kept = client.ask("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.body, "hello");
  EXPECT_EQ(kept.headers.at("connection"), "keep-alive");
  const TestResponse stream =
      client.ask("GET /stream?count=3&bytes=3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(stream.status, 505) << "a stream that is cut must not look whole";
  const TestResponse last = client.ask("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(last.body, "hello");
  EXPECT_EQ(last.headers.at("connection"), "close");
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST(Server, ClosesWhenAsked) {
  TestServer server;
  TestClient client(server.port());
  const TestResponse response = client.ask(get("/hello", "Connection: close\r\n"));
  EXPECT_EQ(response.body, "hello");
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST(Server, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server;
  TestClient client(server.port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += get("/models/" + std::to_string(i)) + post("/echo", std::to_string(i) + "!");
  }
  ASSERT_TRUE(client.send(requests));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.read_response().body, "name=" + std::to_string(i) + ";");
    EXPECT_EQ(client.read_response().body, std::to_string(i) + "!");
  }
}

TEST(Server, PipelinedMoreThanIsBufferedWaits) {
  TestServer server;
  TestClient client(server.port());
  ASSERT_TRUE(client.send(get("/hold")));
  const auto exchange = server.held.next();
  ASSERT_TRUE(exchange);
  const std::string body(200'000, 'b');
  ASSERT_TRUE(client.send(post("/echo", body) + get("/hello")));
  Response response;
  response.body = "first";
  exchange->respond(std::move(response));
  EXPECT_EQ(client.read_response().body, "first");
  EXPECT_EQ(client.read_response().body, body);
  EXPECT_EQ(client.read_response().body, "hello");
}

TEST(Server, ExpectContinue) {
  TestServer server;
  TestClient client(server.port());
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 4\r\nExpect: 100-Continue\r\n\r\n";
  client.send(head);
  EXPECT_EQ(client.read_response().status, 100);
  EXPECT_EQ(client.ask("body").body, "body");
  // Whoever does not wait is not told to go on.
  EXPECT_EQ(client.ask(head + "next").body, "next");
}

TEST(Server, RequestIds) {
  TestServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.ask(get("/hello", "X-Request-Id: abc-1\r\n")).headers.at("x-request-id"),
            "abc-1");
  const std::string first = client.ask(get("/hello")).headers.at("x-request-id");
  EXPECT_THAT(first, testing::MatchesRegex("req_[0-9a-f]+"));
  EXPECT_NE(client.ask(get("/nothing")).headers.at("x-request-id"), first);
  const std::string is_long(129, 'x');
  EXPECT_THAT(
      client.ask(get("/hello", "X-Request-Id: " + is_long + "\r\n")).headers.at("x-request-id"),
      HasSubstr("req_"));
  EXPECT_THAT(client.ask(get("/hello", "X-Request-Id: a b\r\n")).headers.at("x-request-id"),
              HasSubstr("req_"));
}

TEST(Server, AHandlerThatFailsAnswers500) {
  TestServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.ask(get("/throw")).status, 500);
  EXPECT_EQ(client.ask(get("/drop")).status, 500);
  EXPECT_EQ(client.ask(get("/hello")).body, "hello");
}

TEST(Server, LogsAccess) {
  TestServer server;
  TestClient client(server.port());
  client.ask(get("/models/m?secret=1", "X-Request-Id: id1\r\n"));
  client.ask("nonsense\r\n\r\n");
  const auto records = server.records(2);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].request_id, "id1");
  EXPECT_EQ(records[0].method, "GET");
  EXPECT_EQ(records[0].path, "/models/m");
  EXPECT_EQ(records[0].route, "/models/{name...}");
  EXPECT_EQ(records[0].status, 200);
  EXPECT_TRUE(records[0].is_complete);
  EXPECT_GT(records[0].sent_bytes, 100U);
  EXPECT_GT(records[0].duration.count(), 0);
  EXPECT_THAT(records[0].remote, HasSubstr("127.0.0.1:"));
  EXPECT_EQ(records[1].status, 400);
  EXPECT_EQ(records[1].route, "");
}

TEST(Server, SaysWhatKeepsItFromStarting) {
  const auto message = [](ServerOptions options) {
    const auto server = Server::start(std::move(options), Router());
    return server ? std::string("started") : server.error().message();
  };
  EXPECT_THAT(message({.address = "nowhere"}), HasSubstr("nowhere"));
  EXPECT_THAT(message({.handler_threads = 0}), HasSubstr("handler_threads"));
  EXPECT_THAT(message({.max_header_bytes = 10}), HasSubstr("max_header_bytes"));
  EXPECT_THAT(message({.tls_certificate = "a.pem"}), HasSubstr("a key"));
  TestServer first;
  EXPECT_THAT(message({.port = first.port()}), HasSubstr(std::to_string(first.port())));
  EXPECT_EQ(first->url(), "http://127.0.0.1:" + std::to_string(first.port()));
}

}  // namespace
}  // namespace paceline::http
