#include "shard/parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace paceline::shard {

Status for_each_index(std::size_t count, std::uint32_t threads,
                      const std::function<Status(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> first_failed = count;
  std::mutex mutex;
  std::optional<Error> error;  // of index first_failed; guarded by mutex

  const auto run = [&] {
    while (true) {
      const std::size_t index = next.fetch_add(1);
      // Indices are handed out in order, so all below a failure are done or under way.
      if (index >= first_failed.load()) return;
      Status status = work(index);
      if (status) continue;
      const std::lock_guard lock(mutex);
      if (index < first_failed.load()) {
        first_failed = index;
        error = std::move(status).error();
      }
    }
  };
  {
    const std::size_t helpers = std::min<std::size_t>(std::max<std::uint32_t>(threads, 1), count);
    std::vector<std::jthread> pool;
    for (std::size_t i = 1; i < helpers; ++i) pool.emplace_back(run);
    run();
  }
  if (error) return fail(std::move(*error));
  return {};
}

}  // namespace paceline::shard
