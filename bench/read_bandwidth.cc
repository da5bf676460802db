// How fast threads read memory: read_bandwidth THREADS prints GB/s, the best of a few passes over
// 1 GiB that no cache holds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kWords = std::size_t{1} << 27;
constexpr int kPasses = 5;

std::uint64_t sum(const std::vector<std::uint64_t>& words) {
  std::uint64_t lanes[16] = {};  // so that it can be vectorized
  for (std::size_t at = 0; at + 16 <= words.size(); at += 16) {
    for (std::size_t lane = 0; lane < 16; ++lane) lanes[lane] += words[at + lane];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t lane : lanes) total += lane;
  return total;
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 0;
  if (threads < 1 || threads > 1024) {
    std::fprintf(stderr, "usage: read_bandwidth THREADS\n");
    return 2;
  }
  const std::size_t share = kWords / static_cast<std::size_t>(threads);
  const std::vector<std::vector<std::uint64_t>> parts(threads,
                                                      std::vector<std::uint64_t>(share, 1));
  std::vector<std::uint64_t> sums(parts.size());
  double best_s = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> running;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      running.emplace_back([&, part] { sums[part] += sum(parts[part]); });
    }
    for (std::thread& thread : running) thread.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best_s = std::min(best_s, took.count());
  }
  for (const std::uint64_t total : sums) {
    if (total == 0) return 1;  // what was read is used
  }
  std::printf("%.2f\n",
              static_cast<double>(share * parts.size() * sizeof(std::uint64_t)) / best_s / 1e9);
  return 0;
}
