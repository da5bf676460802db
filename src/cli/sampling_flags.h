// The flags by which generate and chat say how tokens are chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sampling_defaults.h"
#include "sampling/sampling_spec.h"

namespace paceline::cli {

struct SamplingFlags {
  sampling::SamplingSpec spec;  ///< without what is still text below
  std::vector<std::string> logit_bias;
  std::uint32_t max_tokens = 256;
  std::vector<std::string> stop;

  void add_to(CLI::App& command);
  /// All of it, checked but for the vocabulary; where no flag was given, what the package says.
  /// kInvalidArgument naming the flag.
  Result<sampling::SamplingSpec> sampling_spec(const SamplingDefaults& package = {}) const;

 private:
  /// Flags that a package may have defaults for; of the command.
  struct Options {
    CLI::Option* temperature = nullptr;
    CLI::Option* top_p = nullptr;
    CLI::Option* top_k = nullptr;
    CLI::Option* min_p = nullptr;
    CLI::Option* repetition_penalty = nullptr;
  } options_;
};

/// "5:-1.5" is a bias of -1.5 for token 5; "5:-inf" forbids it.
Result<sampling::LogitBias> parse_logit_bias(const std::string& text);

}  // namespace paceline::cli
