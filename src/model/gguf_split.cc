#include "model/gguf_split.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

namespace paceline::model {
namespace {

constexpr std::size_t kDigits = 5;
constexpr std::string_view kBetween = "-of-";
constexpr std::string_view kSuffix = ".gguf";

/// Takes the five digits at the end off; none where there are not five.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  if (text.size() < kDigits) return std::nullopt;
  const std::string_view digits = text.substr(text.size() - kDigits);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + kDigits, number);
  if (error != std::errc() || end != digits.data() + kDigits) return std::nullopt;
  text.remove_suffix(kDigits);
  return number;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::filesystem::path GgufPartName::path_of(std::uint32_t other) const {
  return stem.string() + fmt::format("-{:05}-of-{:05}.gguf", other + 1, count);
}

std::optional<GgufPartName> parse_gguf_part_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::string_view rest = name;
  if (!take_suffix(rest, kSuffix)) return std::nullopt;
  const auto count = take_number(rest);
  if (!count || !take_suffix(rest, kBetween)) return std::nullopt;
  const auto number = take_number(rest);
  if (!number || !take_suffix(rest, "-") || *number < 1 || *number > *count) return std::nullopt;
  return GgufPartName{path.parent_path() / std::string(rest), *number - 1, *count};
}

}  // namespace paceline::model
