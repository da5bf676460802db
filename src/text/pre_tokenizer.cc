#include "text/pre_tokenizer.h"

#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "model/foreign_text.h"

namespace paceline::text {
namespace {

using Json = nlohmann::ordered_json;

enum class Family {
  kGpt2,        ///< GPT-2's pattern
  kDigits,      ///< each digit alone, then GPT-2's pattern
  kCl100k,      ///< GPT-4: digits in groups of up to three
  kLlama3,      ///< as GPT-4, but whole tokens first
  kQwen2,       ///< NFC, each digit alone
  kO200k,       ///< GPT-4o: a word may begin at a capital letter; marks belong to words
  kTekken,      ///< as GPT-4o without English contractions, each digit alone; whole tokens first
  kDeepSeekV3,  ///< three patterns in a row
};

constexpr std::array<std::pair<std::string_view, Family>, 13> kFamilies = {{
    {"gpt-2", Family::kGpt2},
    {"smollm", Family::kDigits},
    {"starcoder", Family::kDigits},
    {"refact", Family::kDigits},
    {"dbrx", Family::kCl100k},
    {"llama-bpe", Family::kLlama3},
    {"llama3", Family::kLlama3},
    {"llama-v3", Family::kLlama3},
    {"qwen2", Family::kQwen2},
    {"deepseek-r1-qwen", Family::kQwen2},
    {"gpt-4o", Family::kO200k},
    {"tekken", Family::kTekken},
    {"deepseek-v3", Family::kDeepSeekV3},
}};

constexpr std::string_view kContractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
constexpr std::string_view kUpToThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kOneDigit = R"(\p{N})";
constexpr std::string_view kLineBreaksAndSpaces = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Words, punctuation and line breaks of GPT-4's kind, with `digits` for runs of digits.
std::string words_pattern(std::string_view digits) {
  return fmt::format(R"({}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{})",
                     kContractions, digits, kLineBreaksAndSpaces);
}

/// Those of GPT-4o's kind: capital letters only at a word's start; `ending` behind a word.
std::string cased_words_pattern(std::string_view ending, std::string_view digits) {
  constexpr std::string_view kBefore = R"([^\r\n\p{L}\p{N}]?)";
  constexpr std::string_view kCapitals = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
  constexpr std::string_view kSmall = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  return fmt::format(R"({0}{1}*{2}+{3}|{0}{1}+{2}*{3}|{4}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{5})",
                     kBefore, kCapitals, kSmall, ending, digits, kLineBreaksAndSpaces);
}

Json byte_level(bool use_regex) {
  return Json{{"type", "ByteLevel"},
              {"add_prefix_space", false},
              {"trim_offsets", true},
              {"use_regex", use_regex}};
}

Json split(const std::string& pattern) {
  return Json{{"type", "Split"},
              {"pattern", {{"Regex", pattern}}},
              {"behavior", "Isolated"},
              {"invert", false}};
}

Json sequence(std::initializer_list<Json> parts) {
  Json list = Json::array();
  for (const Json& part : parts) list.push_back(part);
  return Json{{"type", "Sequence"}, {"pretokenizers", std::move(list)}};
}

Json split_by(const std::string& pattern) {
  return sequence({split(pattern), byte_level(/*use_regex=*/false)});
}

/// Digits, Chinese and Japanese, then the rest; ASCII punctuation joins the letters behind it.
Json deepseek_v3() {
  constexpr std::string_view kRest =
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
      R"(| ?[\p{P}\p{S}]+[\r\n]*)";
  return sequence(
      {split(std::string(kUpToThreeDigits)), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
       split(fmt::format("{}{}", kRest, kLineBreaksAndSpaces)), byte_level(/*use_regex=*/false)});
}

PreTokenizer make(Family family) {
  switch (family) {
    case Family::kGpt2:
      return {nullptr, byte_level(/*use_regex=*/true)};
    case Family::kDigits:
      return {nullptr, sequence({Json{{"type", "Digits"}, {"individual_digits", true}},
                                 byte_level(/*use_regex=*/true)})};
    case Family::kCl100k:
      return {nullptr, split_by(words_pattern(kUpToThreeDigits))};
    case Family::kLlama3:
      return {nullptr, split_by(words_pattern(kUpToThreeDigits)), /*ignore_merges=*/true,
              /*adds_bos=*/true};
    case Family::kQwen2:
      return {Json{{"type", "NFC"}}, split_by(words_pattern(kOneDigit))};
    case Family::kO200k:
      return {nullptr,
              split_by(cased_words_pattern(std::string(kContractions) + "?", kUpToThreeDigits))};
    case Family::kTekken:
      return {nullptr, split_by(cased_words_pattern("", kOneDigit)), /*ignore_merges=*/true,
              /*adds_bos=*/true};
    case Family::kDeepSeekV3:
      break;
  }
  return {nullptr, deepseek_v3(), /*ignore_merges=*/false, /*adds_bos=*/true};
}

}  // namespace

Result<PreTokenizer> pre_tokenizer_named(std::string_view name) {
  std::vector<std::string_view> known;
  for (const auto& [known_name, family] : kFamilies) {
    if (name == known_name) return make(family);
    known.push_back(known_name);
  }
  return fail(ErrorCode::kUnimplemented, "tokenizer.ggml.pre: is {}, expected one of {}",
              name.empty() ? std::string("missing") : model::in_quotes(name),
              fmt::join(known, ", "));
}

}  // namespace paceline::text
