// Which tokens may come next where a text must be of a grammar: JSON, a schema, a regular
// expression, Lark. The C++ face of llguidance in rust/.
//
// Masks are over the tokenizer's ids; which token ends an answer is not known here: a mask says
// apart whether the text may end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/grammar_spec.h"
#include "text/tokenizer.h"

struct PacelineGrammarVocabulary;
struct PacelineGrammar;
struct PacelineMatcher;

namespace paceline::text {

/// A place in a text of a grammar. Move-only; thread-compatible.
class GrammarMatcher {
 public:
  /// Fills `words` with the tokens that may come next: bit (id % 32) of word id / 32. Gives whether
  /// the text may end here; where it does not, some token is allowed. kInvalidArgument: the grammar
  /// met a limit of states or work; the matcher is of no more use then.
  Result<bool> mask(std::span<std::uint32_t> words);
  /// Goes on by `tokens`. kInvalidArgument: one is not allowed; of no more use then.
  Status commit(std::span<const std::uint32_t> tokens);
  /// Takes back the last `tokens` that were committed.
  Status roll_back(std::size_t tokens);

 private:
  friend class Grammar;
  struct Free {
    void operator()(PacelineMatcher* matcher) const;
  };
  explicit GrammarMatcher(PacelineMatcher* handle) : handle_(handle) {}

  std::unique_ptr<PacelineMatcher, Free> handle_;
};

/// A compiled grammar. Immutable; move-only; thread-safe.
class Grammar {
 public:
  /// At the start of the text.
  Result<GrammarMatcher> matcher() const;

 private:
  friend class GrammarVocabulary;
  struct Free {
    void operator()(PacelineGrammar* grammar) const;
  };
  explicit Grammar(PacelineGrammar* handle) : handle_(handle) {}

  std::unique_ptr<PacelineGrammar, Free> handle_;
};

/// A tokenizer's tokens as grammars want them. Takes some 100 ms to make: once for a package.
/// Immutable; move-only; thread-safe.
class GrammarVocabulary {
 public:
  static Result<GrammarVocabulary> create(const Tokenizer& tokenizer);

  /// kInvalidArgument, with what is wrong: no grammar of its kind, a feature that is not known, or
  /// one that meets a limit (text, nesting, states, memory, 2 s).
  Result<Grammar> compile(const GrammarSpec& spec) const;

 private:
  struct Free {
    void operator()(PacelineGrammarVocabulary* vocabulary) const;
  };
  explicit GrammarVocabulary(PacelineGrammarVocabulary* handle) : handle_(handle) {}

  std::unique_ptr<PacelineGrammarVocabulary, Free> handle_;
};

}  // namespace paceline::text
