// The flags of a load, and lines of JSON that override them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "load/load_plan.h"

namespace paceline::cli {

struct LoadFlags {
  std::uint64_t requests = 32;
  double duration_s = 0;
  std::uint32_t concurrency = 8;
  double rate = 0;
  std::string prompt_tokens = "128";
  std::string output_tokens = "64";
  std::uint32_t shared_prefix = 0;
  std::string file;
  double cancel_rate = 0;
  double temperature = 0;
  bool stops_at_eos = false;
  std::uint64_t seed = 0;

  void add_to(CLI::App& command);
  /// All but the vocabulary. kInvalidArgument naming the flag.
  Result<load::LoadSpec> spec() const;
};

struct LoadLine {
  LoadFlags flags;
  std::vector<nlohmann::json> prompts;  ///< texts, or arrays of token ids; empty: as the flags say
};

/// One load: an object whose members override `flags`: requests, concurrency, prompt_tokens and
/// output_tokens (a number or "LEAST:MOST"), shared_prefix, seed, temperature, and prompts, each of
/// which is asked once unless requests is there, too. Foreign text: kInvalidArgument naming the
/// member and what was expected.
Result<LoadLine> parse_load_line(const LoadFlags& flags, std::string_view line);

}  // namespace paceline::cli
