// Streams, clients that go or read slowly, and the server's end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "http/http_testing.h"
#include "http/server.h"

namespace paceline::http {
namespace {

using std::chrono::milliseconds;

Response event_stream() {
  Response head;
  head.content_type = "text/event-stream";
  return head;
}

/// A client in the middle of an answer that the test makes.
struct Held {
  explicit Held(TestServer& server, int receive_buffer_bytes = 0)
      : client(server.port(), receive_buffer_bytes) {
    client.send(get("/hold"));
    exchange = server.held.next();
    if (exchange) exchange->on_gone([gone = gone] { gone->set(); });
  }
  TestClient client;
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<Signal> gone = std::make_shared<Signal>();
};

TEST(Stream, ComesAsItIsWritten) {
  TestServer server;
  Held held(server);
  held.exchange->begin_stream(event_stream());
  EXPECT_THAT(held.client.read_some(), testing::HasSubstr("transfer-encoding: chunked\r\n"));
  EXPECT_TRUE(held.exchange->write("data: 1\n\n"));
  EXPECT_EQ(held.client.read_some(), "9\r\ndata: 1\n\n\r\n");
  EXPECT_TRUE(held.exchange->write(""));
  EXPECT_EQ(server->counts().streams, 1U);
  EXPECT_TRUE(held.exchange->write("é"));
  EXPECT_EQ(held.client.read_some(), "2\r\né\r\n");
  held.exchange->end();
  EXPECT_EQ(held.client.read_some(), "0\r\n\r\n");
  EXPECT_EQ(held.client.ask(get("/hello")).body, "hello") << "the connection goes on";
  EXPECT_EQ(server->counts().streams, 0U);
  EXPECT_FALSE(held.exchange->write("late"));
  held.exchange.reset();
  EXPECT_EQ(held.gone->count(), 0);
}

TEST(Stream, ManyBytesArriveWhole) {
  TestServer server({.max_unsent_bytes = std::size_t{64} << 20});
  TestClient client(server.port());
  const TestResponse response = client.ask(get("/stream?count=2000&bytes=10000"));
  EXPECT_TRUE(response.is_whole);
  EXPECT_EQ(response.chunks, 2000U);
  EXPECT_EQ(response.body.size(), 20'000'000U);
}

TEST(Stream, AbortSendsWhatWasWrittenAndNoEnd) {
  TestServer server;
  Held held(server);
  held.exchange->begin_stream(event_stream());
  held.exchange->write("data: error\n\n");
  held.exchange->abort();
  const TestResponse response = held.client.read_response();
  EXPECT_EQ(response.body, "data: error\n\n");
  EXPECT_FALSE(response.is_whole);
  EXPECT_TRUE(held.client.is_closed_by_server());
  EXPECT_EQ(held.gone->count(), 0) << "the client did not go";
  EXPECT_FALSE(server.records(1).at(0).is_complete);
}

TEST(Stream, LettingGoOfAStreamIsNoEnd) {
  TestServer server;
  Held held(server);
  held.exchange->begin_stream(event_stream());
  held.exchange->write("half");
  held.exchange.reset();
  EXPECT_FALSE(held.client.read_response().is_whole);
}

TEST(Gone, IsToldAtOnceWhileNothingIsWritten) {
  TestServer server;
  for (const bool is_reset : {false, true}) {
    Held held(server);
    EXPECT_FALSE(held.gone->wait(milliseconds(50)));
    is_reset ? held.client.vanish() : held.client.end_sending();
    EXPECT_TRUE(held.gone->wait()) << is_reset;
    EXPECT_FALSE(held.exchange->write("x"));
    Signal late;
    held.exchange->on_gone([&late] { late.set(); });
    EXPECT_EQ(late.count(), 1) << "at once where it has gone already";
    EXPECT_EQ(held.gone->count(), 1);
  }
  const auto records = server.records(2);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].status, 0);
  EXPECT_FALSE(records[0].is_complete);
}

TEST(Gone, IsToldInMidStream) {
  TestServer server;
  Held held(server);
  held.exchange->begin_stream(event_stream());
  held.exchange->write("data");
  EXPECT_NE(held.client.read_some(), "");
  held.client.vanish();
  EXPECT_TRUE(held.gone->wait());
  EXPECT_FALSE(held.exchange->write("more"));
  held.exchange->end();
  EXPECT_EQ(server->counts().requests, 0U);
}

TEST(Gone, IsToldBehindPipelinedBytes) {
  TestServer server;
  Held held(server);
  held.client.send(get("/hello"));
  held.client.vanish();
  EXPECT_TRUE(held.gone->wait());
}

TEST(Gone, WhoReadsTooSlowlyIsLetGo) {
  TestServer server({.max_unsent_bytes = std::size_t{256} << 10});
  Held held(server, 4096);
  held.exchange->begin_stream(event_stream());
  const std::string piece(10'000, 'x');
  std::size_t written = 0;
  while (written < (std::size_t{64} << 20) && held.exchange->write(piece)) {
    written += piece.size();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_LT(written, std::size_t{32} << 20);
  EXPECT_TRUE(held.gone->wait());
  held.exchange->end();
  EXPECT_FALSE(held.client.read_response().is_whole);
}

TEST(Gone, WhoTakesNothingIsLetGo) {
  TestServer server({.write_time = milliseconds(200)});
  Held held(server, 4096);
  Response response;
  response.body.assign(std::size_t{16} << 20, 'x');
  held.exchange->respond(std::move(response));
  const auto records = server.records(1);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_FALSE(records[0].is_complete);
  EXPECT_FALSE(held.client.read_response().is_whole);
}

TEST(Gone, OfAHeadRequestForAStream) {
  TestServer server;
  TestClient client(server.port());
  client.send("HEAD /hold HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto exchange = server.held.next();
  Signal gone;
  exchange->on_gone([&gone] { gone.set(); });
  exchange->begin_stream(event_stream());
  EXPECT_TRUE(gone.wait()) << "nobody reads the stream";
  EXPECT_FALSE(exchange->write("x"));
  EXPECT_EQ(client.read_response(true).status, 200);
}

TEST(Drain, LetsRequestsEndAndRefusesNewOnes) {
  TestServer server;
  TestClient idle(server.port());
  EXPECT_EQ(idle.ask(get("/hello")).status, 200);
  Held held(server);
  held.exchange->begin_stream(event_stream());
  auto drained = std::async(
      std::launch::async, [&] { return server->drain(Deadline::after(std::chrono::seconds(10))); });
  EXPECT_EQ(drained.wait_for(milliseconds(100)), std::future_status::timeout);
  EXPECT_FALSE(TestClient(server.port()).is_connected());
  const TestResponse refused = idle.ask(get("/hello"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  EXPECT_TRUE(idle.is_closed_by_server());
  EXPECT_TRUE(held.exchange->write("the rest"));
  held.exchange->end();
  const TestResponse response = held.client.read_response();
  EXPECT_TRUE(response.is_whole);
  EXPECT_EQ(response.body, "the rest");
  EXPECT_TRUE(held.client.is_closed_by_server());
  EXPECT_EQ(drained.get(), 0U);
}

TEST(Drain, ClosesIdleConnections) {
  TestServer server;
  TestClient idle(server.port());
  TestClient silent(server.port());
  EXPECT_EQ(idle.ask(get("/hello")).status, 200);
  auto drained = std::async(
      std::launch::async, [&] { return server->drain(Deadline::after(std::chrono::seconds(10))); });
  EXPECT_TRUE(idle.is_closed_by_server());
  EXPECT_TRUE(silent.is_closed_by_server());
  idle.vanish();
  silent.vanish();
  EXPECT_EQ(drained.get(), 0U);
}

TEST(Drain, CutsWhatIsLeftAtTheDeadline) {
  TestServer server;
  Held held(server);
  EXPECT_EQ(server->drain(Deadline::after(milliseconds(50))), 1U);
  EXPECT_TRUE(held.gone->wait());
  EXPECT_TRUE(held.client.is_closed_by_server());
}

TEST(Drain, EndsEarlyByAbort) {
  TestServer server;
  Held held(server);
  auto drained = std::async(
      std::launch::async, [&] { return server->drain(Deadline::after(std::chrono::minutes(5))); });
  EXPECT_EQ(drained.wait_for(milliseconds(50)), std::future_status::timeout);
  server->abort();
  EXPECT_EQ(drained.get(), 1U);
  EXPECT_TRUE(held.gone->wait());
}

TEST(Drain, ExchangesMayOutliveTheServer) {
  auto server = std::make_unique<TestServer>();
  Held held(*server);
  held.exchange->begin_stream(event_stream());
  server->stop();
  EXPECT_TRUE(held.gone->wait());
  EXPECT_FALSE(held.exchange->write("x"));
  held.exchange->respond({});
  held.exchange.reset();
}

TEST(Threads, ManyWriteWhileClientsComeAndGo) {
  TestServer server({.handler_threads = 4});
  std::vector<std::thread> clients;
  for (int t = 0; t < 4; ++t) {
    clients.emplace_back([&server, t] {
      for (int i = 0; i < 25; ++i) {
        TestClient client(server.port());
        client.send(get("/stream?count=200&bytes=100"));
        if ((i + t) % 3 == 0) {
          client.read_some();
          client.vanish();
          continue;
        }
        const TestResponse response = client.read_response();
        EXPECT_TRUE(response.is_whole);
        EXPECT_EQ(response.body.size(), 20'000U);
      }
    });
  }
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(server.records(100).size(), 100U);
}

}  // namespace
}  // namespace paceline::http
