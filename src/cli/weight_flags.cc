#include "cli/weight_flags.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <charconv>
#include <map>
#include <optional>
#include <string_view>

namespace paceline::cli {
namespace {

using compiler::WeightKind;

/// Layers beyond this are in no model; a bound for ranges.
constexpr std::uint32_t kMostLayers = 10000;

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value >= kMostLayers) {
    return std::nullopt;
  }
  return value;
}

/// "3" or "3-7", both ends included.
bool add_layers(std::string_view text, std::set<std::uint32_t>& layers) {
  const std::size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *last < *first) return false;
  for (std::uint32_t layer = *first; layer <= *last; ++layer) layers.insert(layer);
  return true;
}

Result<std::set<std::uint32_t>> layer_list(std::string_view text) {
  std::set<std::uint32_t> layers;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    if (!add_layers(rest.substr(0, comma), layers)) {
      return fail(ErrorCode::kInvalidArgument,
                  "--int8-layers: {}: expected layers as in \"0,5-8,29\"", text);
    }
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return layers;
}

std::optional<WeightKind> kind(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return compiler::weight_kind_from(text);
}

}  // namespace

void add_weight_flags(CLI::App& command, const std::shared_ptr<WeightFlags>& flags) {
  const CLI::IsMember kinds({"keep", "f32", "f16", "bf16", "int8", "int4", "int4-asym"});
  command
      .add_option("--weights", flags->weights,
                  "How matrices are stored; default: kept where the source is quantized, else int4")
      ->check(kinds);
  command
      .add_option("--embedding", flags->embedding,
                  "The same for the embedding; default: int8 beside int4, else as --weights")
      ->check(kinds);
  command.add_option("--head", flags->head, "The same for the head")->check(kinds);
  command
      .add_option("--group", flags->group,
                  "Columns of int4 that share a scale; the largest of it, 64 and 32 that divides")
      ->check(CLI::IsMember({32, 64, 128}))
      ->capture_default_str();
  command.add_option("--int8-layers", flags->int8_layers,
                     "Layers whose int4 matrices are int8 instead, as in 0,5-8,29");
  command
      .add_option("--search", flags->search,
                  "Look for scales of int4 that lower the error (on), or take the largest value's")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, bool>{{"on", true}, {"off", false}}))
      ->default_str("on");
}

Result<compiler::WeightOptions> weight_options(const WeightFlags& flags) {
  compiler::WeightOptions options;
  options.weights = kind(flags.weights);
  options.embedding = kind(flags.embedding);
  options.head = kind(flags.head);
  options.group = flags.group;
  options.search = flags.search;
  PACELINE_ASSIGN_OR_RETURN(options.int8_layers, layer_list(flags.int8_layers));
  return options;
}

}  // namespace paceline::cli
