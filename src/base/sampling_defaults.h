// How the publisher of a model would have its tokens chosen: what generation_config.json and a
// package's manifest say of it. What is chosen in the end is in sampling/sampling_spec.h.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/error.h"

namespace paceline {

/// Fields as Hugging Face has them; what is not there is left to the program.
struct SamplingDefaults {
  std::optional<bool> do_sample;  ///< the others count only where it is true
  std::optional<double> temperature;
  std::optional<std::uint32_t> top_k;  ///< 0: all
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;

  bool empty() const { return *this == SamplingDefaults(); }
  friend bool operator==(const SamplingDefaults&, const SamplingDefaults&) = default;
};

/// Reads them out of a JSON object; a null is a field that is not there, others are ignored.
/// kInvalidArgument: "PREFIXtop_p: expected a number above 0 and of at most 1, got 2".
Result<SamplingDefaults> read_sampling_defaults(const nlohmann::json& object,
                                                const std::string& prefix = "");

/// An object of the fields that are there, in the order above.
nlohmann::ordered_json to_json(const SamplingDefaults& defaults);

}  // namespace paceline
