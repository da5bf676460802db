// The flags by which generate and chat say how tokens are chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
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
  /// For a request to a server: max_tokens, and those flags that were given, by the names of
  /// OpenAI's API and of what servers have beside it. Checked as sampling_spec() does.
  Result<nlohmann::ordered_json> request_fields() const;

 private:
  bool is_given(const char* flag) const;
  const CLI::App* command_ = nullptr;  ///< that has the flags
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
