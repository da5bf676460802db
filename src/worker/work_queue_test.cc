#include "worker/work_queue.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <latch>

namespace paceline::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FakeClock final : public Clock {
 public:
  TimePoint now() const override {
    ++looks;
    return TimePoint() + std::chrono::milliseconds(ms.load());
  }
  std::atomic<int> ms = 0;
  mutable std::atomic<std::uint64_t> looks = 0;
};

class WorkQueueTest : public testing::Test {
 protected:
  /// Keeps the queue's thread busy from now until `let_go`.
  void block(WorkQueue& queue) {
    queue.push_always([this] {
      started_.count_down();
      let_go_.wait();
    });
    started_.wait();
  }
  void let_go() { let_go_.count_down(); }
  static void wait_for_all(WorkQueue& queue) {
    std::promise<void> done;
    queue.push_always([&] { done.set_value(); });
    done.get_future().wait();
  }

  FakeClock clock_;
  std::latch started_{1};
  std::latch let_go_{1};
};

TEST_F(WorkQueueTest, JobsRunInOrderOnOneThread) {
  WorkQueue queue(8, clock_);
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(queue.push([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    }));
  }
  wait_for_all(queue);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(threads, testing::Each(threads.front()));
  EXPECT_NE(threads.front(), std::this_thread::get_id());
}

TEST_F(WorkQueueTest, AFullQueueRefusesButTakesWhatMustBeDone) {
  WorkQueue queue(2, clock_);
  block(queue);
  std::atomic<int> done = 0;
  ASSERT_TRUE(queue.push([&] { ++done; }));
  ASSERT_TRUE(queue.push([&] { ++done; }));
  const auto refused = queue.push([&] { done = 100; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("2 jobs"));
  queue.push_always([&] { ++done; });
  EXPECT_EQ(queue.load().queued, 3U);
  let_go();
  wait_for_all(queue);
  EXPECT_EQ(done, 3);
}

TEST_F(WorkQueueTest, TheLoadTellsHowLongTheJobHasBeenRunning) {
  WorkQueue queue(2, clock_);
  EXPECT_EQ(queue.load().busy, Duration::zero());
  block(queue);
  clock_.ms += 1500;
  EXPECT_EQ(queue.load().busy, std::chrono::milliseconds(1500));
  EXPECT_EQ(queue.load().queued, 0U);
  let_go();
}

void wait_until_looked_at(const FakeClock& clock, std::uint64_t times) {
  const std::uint64_t before = clock.looks;
  while (clock.looks < before + times) std::this_thread::yield();
}

TEST_F(WorkQueueTest, PollingEndsWithAJobWithTheQueueAndWithItsTime) {
  std::promise<void> done;
  WorkQueue queue(2, clock_, std::chrono::milliseconds(20));
  ASSERT_TRUE(queue.push([] {}));
  wait_until_looked_at(clock_, 1000);
  ASSERT_TRUE(queue.push([&done] { done.set_value(); }));
  done.get_future().wait();
  wait_until_looked_at(clock_, 1000);
  clock_.ms = 20;
  for (std::uint64_t seen = 0; seen != clock_.looks;) {  // until it sleeps
    seen = clock_.looks;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  wait_for_all(queue);
  wait_until_looked_at(clock_, 1000);
  queue.stop();
}

/// Counts how often it is destroyed.
struct Token {
  explicit Token(std::atomic<int>& c) : count(c) {}
  ~Token() { ++count; }
  std::atomic<int>& count;
};

TEST_F(WorkQueueTest, StoppingWaitsForTheJobAndDropsTheOthers) {
  std::atomic<int> freed = 0;
  std::atomic<bool> finished = false;
  std::atomic<bool> ran_other = false;
  {
    WorkQueue queue(8, clock_);
    block(queue);
    ASSERT_TRUE(
        queue.push([&ran_other, token = std::make_shared<Token>(freed)] { ran_other = true; }));
    auto stopping = std::async(std::launch::async, [&] {
      queue.stop();
      finished = true;
    });
    // What is pushed is refused as soon as stop() has begun; nothing tells when but this.
    for (Status pushed; pushed || pushed.error().code() != ErrorCode::kUnavailable;) {
      pushed = queue.push([&] { ran_other = true; });
    }
    EXPECT_FALSE(finished) << "the running job is waited for";
    let_go();
    stopping.wait();
    EXPECT_EQ(freed, 1);
    queue.push_always([&] { ran_other = true; });
  }
  EXPECT_FALSE(ran_other);
}

}  // namespace
}  // namespace paceline::worker
