// usage: paceline_sampling_bench [VOCABULARY]: time per token of draw() against the plain
// definition, in turns in one run; the median of the rounds' ratios with their quartiles. Then one
// JSON line.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "sampling/reference_sampler_testing.h"
#include "sampling/sampler.h"

namespace {

using namespace paceline::sampling;

struct Case {
  std::string name;
  std::vector<float> logits;
  SamplingSpec spec;
};

/// A few likely tokens over a wide tail, as language models give them.
std::vector<float> peaked(std::size_t size, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 2.5);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  for (int i = 0; i < 40; ++i) logits[random() % size] = 17.0F - 0.25F * static_cast<float>(i);
  return logits;
}

std::vector<float> flat(std::size_t size, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(0, 1e-3F);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = uniform(random);
  return logits;
}

std::vector<Case> cases(std::size_t size) {
  std::mt19937 random(1);
  SamplingSpec greedy;
  SamplingSpec plain;
  plain.temperature = 0.8;
  SamplingSpec top_p = plain;
  top_p.top_p = 0.95;
  SamplingSpec top_k = plain;
  top_k.top_k = 40;
  SamplingSpec both = top_p;
  both.top_k = 40;
  SamplingSpec min_p = plain;
  min_p.min_p = 0.05;
  SamplingSpec many = plain;
  many.top_k = 20000;
  const auto steep = peaked(size, random);
  const auto even = flat(size, random);
  return {{"greedy", steep, greedy},
          {"temperature", steep, plain},
          {"top-p .95", steep, top_p},
          {"top-k 40", steep, top_k},
          {"top-k 40, top-p .95", steep, both},
          {"min-p .05", steep, min_p},
          {"top-k 20000", steep, many},
          {"flat: temperature", even, plain},
          {"flat: top-p .95", even, top_p},
          {"flat: top-k 20000", even, many}};
}

double microseconds(const std::function<std::uint32_t()>& call, std::uint64_t& sum) {
  const auto begin = std::chrono::steady_clock::now();
  sum += call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int count, char** arguments) {
  constexpr int kRounds = 21;
  const std::size_t size = count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 128256;
  if (size == 0 || size > kMaxEntries) {
    fmt::print(stderr, "usage: paceline_sampling_bench [VOCABULARY], 1 to {}\n", kMaxEntries);
    return 2;
  }
  fmt::print("{} logits, kernels {}; microseconds, medians of {} rounds\n", size,
             row_kernels().name, kRounds);
  fmt::print("{:22} {:>10} {:>10} {:>9}  {}\n", "", "here", "reference", "ratio", "quartiles");
  Workspace workspace;
  std::string json;
  std::uint64_t sum = 0;
  for (const Case& c : cases(size)) {
    std::vector<double> here;
    std::vector<double> reference;
    std::vector<double> ratios;
    for (int round = 0; round < kRounds; ++round) {
      const auto position = static_cast<std::uint64_t>(round);
      here.push_back(
          microseconds([&] { return draw(c.logits, c.spec, position, workspace).value(); }, sum));
      reference.push_back(
          microseconds([&] { return reference_token(c.logits, c.spec, position); }, sum));
      ratios.push_back(reference.back() / here.back());
    }
    fmt::print("{:22} {:10.0f} {:10.0f} {:8.0f}x  {:.0f}-{:.0f}\n", c.name, quantile(here, 0.5),
               quantile(reference, 0.5), quantile(ratios, 0.5), quantile(ratios, 0.25),
               quantile(ratios, 0.75));
    json += fmt::format(R"({}{{"case":"{}","us":{:.1f},"ratio":{:.1f}}})", json.empty() ? "" : ",",
                        c.name, quantile(here, 0.5), quantile(ratios, 0.5));
  }
  fmt::print(R"({{"benchmark":"sampling","vocabulary":{},"cases":[{}],"check":{}}})"
             "\n",
             size, json, sum);
  return 0;
}
