// The masks of one answer that must be of a grammar, and where compiled grammars come from.
//
// What state a grammar is in follows from the tokens of the answer: these are given with each
// question, and the state goes back or on to them. So a rejected draft, a failed step, a fork or a
// recovery needs nothing of its own here.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/grammar_spec.h"
#include "sampling/sequence_sampler.h"
#include "text/grammar.h"

namespace paceline::worker {

/// Thread-compatible.
class AnswerGrammar {
 public:
  /// `stop_tokens` end the answer where the text may end, and nowhere else.
  AnswerGrammar(std::shared_ptr<const text::Grammar> grammar, std::uint64_t vocabulary_size,
                std::vector<std::uint32_t> stop_tokens);

  /// The mask of the token after the answer's tokens in `history`: those from `begin` on.
  Result<sampling::TokenMask> mask(const sampling::TokenHistory& history, std::uint64_t begin);

 private:
  /// The matcher stands behind `tokens`.
  Status go_to(const std::vector<std::uint32_t>& tokens);
  bool is_stop(std::uint32_t token) const;
  void set_stops(bool are_allowed);

  std::shared_ptr<const text::Grammar> grammar_;
  std::vector<std::uint32_t> stop_tokens_;
  std::vector<std::uint32_t> words_;
  std::optional<text::GrammarMatcher> matcher_;  ///< none before the first mask, or after an error
  std::vector<std::uint32_t> committed_;
};

/// AnswerGrammar as verify() asks it. Lives for one call.
class GrammarMasks final : public sampling::MaskSource {
 public:
  GrammarMasks(AnswerGrammar& grammar, const sampling::SequenceSampler& sampler)
      : grammar_(grammar), sampler_(sampler) {}
  /// The sampler's history has the accepted tokens too.
  Result<sampling::TokenMask> mask(std::span<const std::uint32_t> /*accepted*/) override {
    return grammar_.mask(sampler_.history(), sampler_.prompt_tokens());
  }

 private:
  AnswerGrammar& grammar_;
  const sampling::SequenceSampler& sampler_;
};

/// Compiled grammars of one package. Thread-compatible.
class GrammarStore {
 public:
  /// Answers to one request, and requests of one client, share what they ask for.
  static constexpr std::size_t kKept = 16;

  /// The package's tokenizer.json; it is read when the first grammar is asked for.
  explicit GrammarStore(std::filesystem::path tokenizer) : tokenizer_(std::move(tokenizer)) {}

  /// kFailedPrecondition naming the file where there is no tokenizer; kInvalidArgument as
  /// text::GrammarVocabulary::compile.
  Result<std::shared_ptr<const text::Grammar>> find(const GrammarSpec& spec);
  /// One that met a limit holds much of what it learned; it is made anew where it is asked for
  /// again.
  void forget(const GrammarSpec& spec);

 private:
  std::filesystem::path tokenizer_;
  std::optional<text::GrammarVocabulary> vocabulary_;
  std::deque<std::pair<GrammarSpec, std::shared_ptr<const text::Grammar>>> kept_;
};

}  // namespace paceline::worker
