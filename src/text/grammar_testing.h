// For tests of grammars: what the masks of a vocabulary allow.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar.h"
#include "text/test_vocabulary.h"

namespace paceline::text {

struct Place {
  std::vector<std::uint32_t> words;
  bool may_end = false;

  bool allows(std::int64_t id) const {
    const auto word = static_cast<std::size_t>(id) / 32;
    return word < words.size() && (words[word] >> (id % 32) & 1U) != 0;
  }
  std::vector<std::uint32_t> allowed() const {
    std::vector<std::uint32_t> ids;
    for (std::uint32_t id = 0; id < words.size() * 32; ++id) {
      if (allows(id)) ids.push_back(id);
    }
    return ids;
  }
};

/// A vocabulary with its grammars. `name`: of test_vocabulary().
class Words {
 public:
  explicit Words(const std::string& name)
      : tokenizer_(test_tokenizer(name)),
        vocabulary_(GrammarVocabulary::create(tokenizer_).value()) {}

  const Tokenizer& tokenizer() const { return tokenizer_; }

  Result<Grammar> compile(GrammarKind kind, std::string text) const {
    return vocabulary_.compile({kind, std::move(text)});
  }

  GrammarMatcher matcher(GrammarKind kind, std::string text = {}) const {
    const auto grammar = compile(kind, std::move(text));
    EXPECT_TRUE(grammar.has_value()) << grammar.error().message();
    return grammar.value().matcher().value();
  }

  Place place(GrammarMatcher& matcher) const {
    Place place;
    place.words.resize(static_cast<std::size_t>(tokenizer_.vocabulary_size() + 31) / 32, ~0U);
    const auto may_end = matcher.mask(place.words);
    EXPECT_TRUE(may_end.has_value()) << may_end.error().message();
    place.may_end = may_end.value_or(false);
    EXPECT_TRUE(place.may_end || !place.allowed().empty());
    return place;
  }

  /// How much of `text` the grammar takes, by tokens that the masks allow, and whether it may end.
  std::pair<std::string, bool> follow(GrammarMatcher matcher, const std::string& text) const {
    std::string taken;
    const auto ids = tokenizer_.encode(text, false);
    for (const std::int64_t id : ids.value()) {
      const Place here = place(matcher);
      if (!here.allows(id)) return {taken, here.may_end};
      const auto token = static_cast<std::uint32_t>(id);
      EXPECT_TRUE(matcher.commit({&token, 1}).has_value());
      taken += tokenizer_.token_bytes(id);
    }
    return {taken, place(matcher).may_end};
  }

  bool accepts(GrammarKind kind, const std::string& grammar, const std::string& text) const {
    return follow(matcher(kind, grammar), text) == std::pair(text, true);
  }

  /// A text of the grammar by tokens drawn from the masks; it ends where it may with one in four.
  std::string wander(GrammarMatcher matcher, std::uint32_t seed) const {
    std::mt19937 random(seed);
    std::string text;
    for (int step = 0; step < 2000; ++step) {
      const Place here = place(matcher);
      const auto allowed = here.allowed();
      if (allowed.empty() || (here.may_end && random() % 4 == 0)) return text;
      const std::uint32_t token = allowed[random() % allowed.size()];
      EXPECT_FALSE(tokenizer_.is_special(token)) << token;
      EXPECT_TRUE(matcher.commit({&token, 1}).has_value());
      text += tokenizer_.token_bytes(token);
    }
    ADD_FAILURE() << "no end: " << text;
    return text;
  }

 private:
  Tokenizer tokenizer_;
  GrammarVocabulary vocabulary_;
};

inline const Words& bpe() {
  static const Words words("bpe");
  return words;
}

}  // namespace paceline::text
