// What bench tells: a table for people, JSON for programs, a page with plots.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench_runner.h"
#include "load/statistics.h"

namespace paceline::cli {

struct BenchReport {
  std::string title;  ///< model, stages, profile
  load::Targets targets;
  load::Summary summary;
  BenchResult result;
  std::uint32_t kv_blocks = 0;
  nlohmann::json chain;               ///< chain_json() at the end
  std::uint64_t resident_before = 0;  ///< bytes, of all stages
  std::uint64_t resident_after = 0;
};

std::string bench_table(const BenchReport& report);
/// One object; times in ms, rates per second.
nlohmann::json bench_json(const BenchReport& report);
/// One file that needs no other.
std::string bench_html(const BenchReport& report);

}  // namespace paceline::cli
