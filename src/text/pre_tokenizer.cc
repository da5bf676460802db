#include "text/pre_tokenizer.h"

#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "model/foreign_text.h"

namespace paceline::text {
namespace {

using Json = nlohmann::ordered_json;

enum class Family {
  kGpt2,         ///< GPT-2's pattern
  kDigits,       ///< each digit alone, then GPT-2's pattern
  kThreeDigits,  ///< Llama 3: digits in groups of up to three
  kOneDigit,     ///< Qwen2: NFC, each digit alone
};

constexpr std::array<std::pair<std::string_view, Family>, 10> kFamilies = {{
    {"default", Family::kGpt2},
    {"gpt-2", Family::kGpt2},
    {"smollm", Family::kDigits},
    {"starcoder", Family::kDigits},
    {"refact", Family::kDigits},
    {"llama-bpe", Family::kThreeDigits},
    {"llama3", Family::kThreeDigits},
    {"llama-v3", Family::kThreeDigits},
    {"qwen2", Family::kOneDigit},
    {"deepseek-r1-qwen", Family::kOneDigit},
}};

/// Words, punctuation and line breaks of GPT-4's kind, with `digits` for runs of digits.
std::string words_pattern(std::string_view digits) {
  return std::string(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)") +
         std::string(digits) + R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

Json byte_level(bool use_regex) {
  return Json{{"type", "ByteLevel"},
              {"add_prefix_space", false},
              {"trim_offsets", true},
              {"use_regex", use_regex}};
}

Json in_sequence(Json first, Json second) {
  return Json{{"type", "Sequence"},
              {"pretokenizers", Json::array({std::move(first), std::move(second)})}};
}

Json split(const std::string& pattern) {
  return Json{{"type", "Split"},
              {"pattern", {{"Regex", pattern}}},
              {"behavior", "Isolated"},
              {"invert", false}};
}

PreTokenizer make(Family family) {
  PreTokenizer result;
  switch (family) {
    case Family::kGpt2:
      result.pre_tokenizer = byte_level(/*use_regex=*/true);
      break;
    case Family::kDigits:
      result.pre_tokenizer = in_sequence(Json{{"type", "Digits"}, {"individual_digits", true}},
                                         byte_level(/*use_regex=*/true));
      break;
    case Family::kThreeDigits:
      result.pre_tokenizer =
          in_sequence(split(words_pattern(R"(\p{N}{1,3})")), byte_level(/*use_regex=*/false));
      result.ignore_merges = true;
      break;
    case Family::kOneDigit:
      result.normalizer = Json{{"type", "NFC"}};
      result.pre_tokenizer =
          in_sequence(split(words_pattern(R"(\p{N})")), byte_level(/*use_regex=*/false));
      break;
  }
  return result;
}

}  // namespace

Result<PreTokenizer> pre_tokenizer_named(std::string_view name) {
  if (name.empty()) name = "default";
  std::vector<std::string_view> known;
  for (const auto& [known_name, family] : kFamilies) {
    if (name == known_name) return make(family);
    known.push_back(known_name);
  }
  return fail(ErrorCode::kUnimplemented, "tokenizer.ggml.pre: is {}, expected one of {}",
              model::in_quotes(name), fmt::join(known, ", "));
}

}  // namespace paceline::text
