// What the weights of a package lost: `compile --report`. A table as JSON, and a page with a plot
// of the error by layer and part that needs no network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compiler/stored_weight.h"

namespace paceline::compiler {

/// One tensor of the graph.
struct TensorReport {
  std::string name;
  std::string part;  ///< e.g. "self_attn.q_proj"
  std::optional<std::uint32_t> layer;
  std::vector<std::uint64_t> shape;
  std::string source_type;  ///< e.g. "BF16"
  std::string stored_type;  ///< e.g. "i4"
  std::uint64_t group = 0;  ///< 0: no scales
  std::uint64_t source_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t elements = 0;
  double error = 0.0;           ///< root mean square, relative to that of the values
  double weighted_error = 0.0;  ///< the same, each value weighted (quantize.h)
  double largest_error = 0.0;   ///< relative to the largest value

  double bits_per_weight() const;
};

struct WeightsReport {
  std::string model;
  std::vector<TensorReport> tensors;  ///< in the order of the .bin
  double error = 0.0;                 ///< of all values together
  double weighted_error = 0.0;
  std::uint64_t source_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t elements = 0;
};

WeightsReport report_on(std::string model, const StoredWeights& weights);

std::string report_json(const WeightsReport& report);
/// A whole page with an SVG in it; foreign text is escaped.
std::string report_html(const WeightsReport& report);

/// Writes PATH where it ends in .json or .html, else PATH/report.json and PATH/report.html, making
/// the directory.
Status write_report(const WeightsReport& report, const std::filesystem::path& path);

}  // namespace paceline::compiler
