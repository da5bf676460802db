#include "cli/layers_flag.h"

#include <charconv>

namespace paceline::cli {
namespace {

/// Reads a number off the front of `text`; false where there is none.
bool take_number(std::string_view& text, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

Result<LayerRange> parse_layers(std::string_view text) {
  LayerRange range;
  std::string_view rest = text;
  const bool has_begin = take_number(rest, range.begin);
  const bool has_colon = rest.starts_with(':');
  if (has_colon) rest.remove_prefix(1);
  if (!has_begin || !has_colon || !take_number(rest, range.end) || !rest.empty() ||
      range.begin >= range.end) {
    return fail(ErrorCode::kInvalidArgument,
                "--layers: expected FIRST:END with FIRST below END, e.g. 0:15, got {:.40}", text);
  }
  return range;
}

Result<LayerRange> layers_or_all(std::string_view text, std::uint32_t layer_count) {
  if (text.empty()) return LayerRange{0, layer_count};
  PACELINE_ASSIGN_OR_RETURN(const LayerRange range, parse_layers(text));
  if (range.end <= layer_count) return range;
  return fail(ErrorCode::kInvalidArgument, "--layers: got {}, but the model has layers 0:{}", text,
              layer_count);
}

CLI::Option* add_layers_flag(CLI::App& command, std::string& text) {
  return command.add_option("--layers", text,
                            "Layers FIRST to END - 1, as FIRST:END; all if not given");
}

}  // namespace paceline::cli
