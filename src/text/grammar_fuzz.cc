// libFuzzer target of grammars: foreign schemas, expressions and Lark compile or are refused, in
// bounded time and memory, and masks of what compiles can be walked. The first byte chooses the
// kind, the second the walk.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/grammar.h"

namespace {

using namespace paceline;

constexpr int kMaxSteps = 40;

/// UTF-8 of the character that byte-level tokenizers spell a byte as.
std::string spelled(int byte, int& unprintable) {
  const bool is_printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
  const int character = is_printable ? byte : 0x100 + unprintable++;
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3F))};
}

/// One token for each byte, and some longer ones.
text::GrammarVocabulary make_vocabulary() {
  nlohmann::json vocabulary = nlohmann::json::object();
  int unprintable = 0;
  for (int byte = 0; byte < 256; ++byte) vocabulary[spelled(byte, unprintable)] = byte;
  for (const char* token : {"{\"", "\":", "\",", "}}", "tr", "ue", "ab", "00", "\xC4\xA0\""}) {
    vocabulary[token] = vocabulary.size();
  }
  const nlohmann::json tokenizer = {
      {"version", "1.0"},
      {"added_tokens", nlohmann::json::array()},
      {"decoder",
       {{"type", "ByteLevel"},
        {"add_prefix_space", true},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  return text::GrammarVocabulary::create(text::Tokenizer::parse(tokenizer.dump()).value()).value();
}

void walk(text::GrammarMatcher matcher, std::uint8_t seed) {
  std::vector<std::uint32_t> words(9);
  std::uint32_t random = seed;
  for (int step = 0; step < kMaxSteps; ++step) {
    const auto may_end = matcher.mask(words);
    if (!may_end) return;  // met a limit of work
    std::vector<std::uint32_t> allowed;
    for (std::uint32_t id = 0; id < words.size() * 32; ++id) {
      if ((words[id / 32] >> (id % 32) & 1U) != 0) allowed.push_back(id);
    }
    PACELINE_CHECK(*may_end || !allowed.empty());
    if (allowed.empty()) return;
    random = random * 1664525U + 1013904223U;
    const std::uint32_t token = allowed[(random >> 8) % allowed.size()];
    if (!matcher.commit({&token, 1})) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const text::GrammarVocabulary vocabulary = make_vocabulary();
  if (size < 2) return 0;
  GrammarSpec spec;
  spec.kind = static_cast<GrammarKind>(data[0] % 4 + 1);
  spec.text.assign(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto begin = std::chrono::steady_clock::now();
  const auto grammar = vocabulary.compile(spec);
  // The limit is 2 s; the rest is for a machine that is busy.
  PACELINE_CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  if (grammar) {
    walk(grammar->matcher().value(), data[1]);
  } else {
    PACELINE_CHECK(grammar.error().code() == ErrorCode::kInvalidArgument);
    PACELINE_CHECK(!grammar.error().message().empty());
  }
  return 0;
}
