#include "batch/batch_runner.h"

#include <gmock/gmock.h>

#include <atomic>
#include <set>

#include "batch/batch_testing.h"

namespace paceline::batch {
namespace {

class BatchRunnerTest : public BatchTest {
 protected:
  /// Answers at once with what was asked.
  void answer(const std::shared_ptr<http::Exchange>& exchange, int status = 200) {
    http::Response response;
    response.status = status;
    response.body = exchange->request().body;
    exchange->respond(std::move(response));
  }
  RunnerOptions options(std::size_t max_in_flight = 4) {
    RunnerOptions options;
    options.max_in_flight = max_in_flight;
    options.retry_after = std::chrono::milliseconds(10);
    options.look_every = std::chrono::milliseconds(20);
    options.now = [] { return std::int64_t{1500}; };
    return options;
  }
  template <typename Done>
  bool wait_until(Done done) {
    for (int i = 0; i < 2000 && !done(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return done();
  }
  bool wait_for_status(const std::string& id, const std::string& status) {
    return wait_until([&] { return batch(id)["status"] == status; });
  }
};

TEST_F(BatchRunnerTest, EachLineHasItsResult) {
  const std::string id = create(lines(50));
  BatchRunner runner(
      *store_, [this](const std::string&, const auto& exchange) { answer(exchange); }, options());
  ASSERT_TRUE(wait_for_status(id, "completed"));
  const auto found = results(batch(id)["output_file_id"]);
  EXPECT_EQ(found.size(), 50U);
  EXPECT_EQ(found.at("id-7")["response"]["body"]["prompt"], "x");
  EXPECT_TRUE(batch(id)["error_file_id"].is_null());
}

TEST_F(BatchRunnerTest, ABatchThatComesLaterIsSeen) {
  BatchRunner runner(
      *store_, [this](const std::string&, const auto& exchange) { answer(exchange, 400); },
      options());
  const std::string id = create(lines(3));
  runner.wake();
  ASSERT_TRUE(wait_for_status(id, "completed"));
  EXPECT_EQ(results(batch(id)["error_file_id"]).size(), 3U);
}

TEST_F(BatchRunnerTest, SoManyAreInFlight) {
  const std::string id = create(lines(10));
  std::mutex mutex;
  std::vector<std::shared_ptr<http::Exchange>> held;
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return held.size();
  };
  BatchRunner runner(
      *store_,
      [&](const std::string& endpoint, const auto& exchange) {
        EXPECT_EQ(endpoint, "/v1/completions");
        const std::lock_guard lock(mutex);
        held.push_back(exchange);
      },
      options(4));
  ASSERT_TRUE(wait_until([&] { return count() == 4; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(count(), 4U);
  while (batch(id)["status"] != "completed") {
    std::vector<std::shared_ptr<http::Exchange>> now;
    {
      const std::lock_guard lock(mutex);
      std::swap(now, held);
    }
    EXPECT_LE(now.size(), 4U);
    for (const auto& exchange : now) answer(exchange);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(results(batch(id)["output_file_id"]).size(), 10U);
}

TEST_F(BatchRunnerTest, WhoIsBusyIsAskedAgain) {
  const std::string id = create(lines(6));
  std::atomic<int> asked = 0;
  BatchRunner runner(
      *store_,
      [&](const std::string&, const auto& exchange) {
        const int number = ++asked;
        answer(exchange, number <= 3 ? 503 : number <= 6 ? 429 : 200);
      },
      options());
  ASSERT_TRUE(wait_for_status(id, "completed"));
  EXPECT_EQ(results(batch(id)["output_file_id"]).size(), 6U);
  EXPECT_GE(asked, 12);
}

TEST_F(BatchRunnerTest, AnExchangeThatIsLetGoIsAnError) {
  const std::string id = create(lines(2));
  BatchRunner runner(
      *store_, [](const std::string&, const auto&) {}, options());
  ASSERT_TRUE(wait_for_status(id, "completed"));
  EXPECT_EQ(results(batch(id)["error_file_id"]).at("id-0")["response"]["status_code"], 500);
}

TEST_F(BatchRunnerTest, WhatIsInFlightAtTheEndIsCancelledAndAskedAgain) {
  const std::string id = create(lines(3));
  std::mutex mutex;
  std::vector<std::shared_ptr<http::Exchange>> held;
  std::atomic<int> gone = 0;
  {
    BatchRunner runner(
        *store_,
        [&](const std::string&, const auto& exchange) {
          exchange->on_gone([&gone] { ++gone; });
          const std::lock_guard lock(mutex);
          held.push_back(exchange);
        },
        options());
    ASSERT_TRUE(wait_until([&] {
      const std::lock_guard lock(mutex);
      return held.size() == 3;
    }));
  }
  EXPECT_EQ(gone, 3);
  for (const auto& exchange : held) answer(exchange);  // to nobody
  EXPECT_EQ(batch(id)["request_counts"]["completed"], 0);
  BatchRunner runner(
      *store_, [this](const std::string&, const auto& exchange) { answer(exchange); }, options());
  ASSERT_TRUE(wait_for_status(id, "completed"));
}

/// The server dies at every commit there is, before it or behind it.
TEST_F(BatchRunnerTest, OneResultForEachLineWhereverTheServerDies) {
  constexpr int kLines = 12;
  constexpr std::size_t kInFlight = 3;
  bool has_died = true;
  int deaths = 0;
  for (int at = 0; has_died; ++at) {
    store_.reset();
    std::filesystem::remove_all(directory_);
    reopen();
    const std::string id = create(lines(kLines));
    std::mutex mutex;
    std::map<std::string, int> asked;
    has_died = false;
    std::atomic<bool> is_dead = false;
    int commits = 0;
    BatchStore::Options dying;
    dying.before_commit = [&]() -> Status {
      if (commits++ >= at) is_dead = true;
      if (is_dead) return fail(ErrorCode::kAborted, "killed");
      return {};
    };
    const auto execute = [&](const std::string&, const auto& exchange) {
      {
        const std::lock_guard lock(mutex);
        ++asked[exchange->request().body + exchange->request().path];
      }
      answer(exchange);
    };
    for (const bool dies : {true, false}) {
      reopen(dies ? dying : BatchStore::Options());
      BatchRunner runner(*store_, execute, options(kInFlight));
      ASSERT_TRUE(
          wait_until([&] { return (dies && is_dead) || batch(id)["status"] == "completed"; }));
      has_died = has_died || is_dead;
    }
    deaths += has_died ? 1 : 0;
    const auto found = results(batch(id)["output_file_id"]);
    EXPECT_EQ(found.size(), static_cast<std::size_t>(kLines)) << "died at commit " << at;
    EXPECT_TRUE(batch(id)["error_file_id"].is_null());
    int total = 0;
    for (const auto& [body, times] : asked) total += times;
    EXPECT_LE(total, kLines + static_cast<int>(kInFlight)) << "only what was in flight again";
  }
  EXPECT_GT(deaths, 3);
}

}  // namespace
}  // namespace paceline::batch
