#include "text/grammar.h"

#include <string_view>

#include "text/border.h"

namespace paceline::text {
namespace {

std::int32_t number_of(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonObject:
      return PACELINE_GRAMMAR_JSON_OBJECT;
    case GrammarKind::kJsonSchema:
      return PACELINE_GRAMMAR_JSON_SCHEMA;
    case GrammarKind::kRegex:
      return PACELINE_GRAMMAR_REGEX;
    case GrammarKind::kLark:
      return PACELINE_GRAMMAR_LARK;
  }
  return -1;
}

std::string_view name_of(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonSchema:
      return "JSON schema";
    case GrammarKind::kRegex:
      return "regular expression";
    default:
      return "grammar";
  }
}

}  // namespace

void GrammarMatcher::Free::operator()(PacelineMatcher* matcher) const {
  paceline_matcher_free(matcher);
}

void Grammar::Free::operator()(PacelineGrammar* grammar) const { paceline_grammar_free(grammar); }

void GrammarVocabulary::Free::operator()(PacelineGrammarVocabulary* vocabulary) const {
  paceline_grammar_vocabulary_free(vocabulary);
}

Result<bool> GrammarMatcher::mask(std::span<std::uint32_t> words) {
  OwnedText error;
  bool may_end = false;
  const auto status = status_from(
      paceline_matcher_mask(handle_.get(), words.data(), words.size(), &may_end, error.receive()),
      error);
  if (!status) return fail(status.error().with_context("grammar"));
  return may_end;
}

Status GrammarMatcher::commit(std::span<const std::uint32_t> tokens) {
  OwnedText error;
  const auto status = status_from(
      paceline_matcher_commit(handle_.get(), tokens.data(), tokens.size(), error.receive()), error);
  if (!status) return fail(status.error().with_context("grammar"));
  return {};
}

Status GrammarMatcher::roll_back(std::size_t tokens) {
  OwnedText error;
  const auto status =
      status_from(paceline_matcher_roll_back(handle_.get(), tokens, error.receive()), error);
  if (!status) return fail(status.error().with_context("grammar"));
  return {};
}

Result<GrammarMatcher> Grammar::matcher() const {
  OwnedText error;
  PacelineMatcher* handle = nullptr;
  PACELINE_RETURN_IF_ERROR(
      status_from(paceline_matcher_new(handle_.get(), &handle, error.receive()), error));
  return GrammarMatcher(handle);
}

Result<GrammarVocabulary> GrammarVocabulary::create(const Tokenizer& tokenizer) {
  OwnedText error;
  PacelineGrammarVocabulary* handle = nullptr;
  const auto status = status_from(
      paceline_grammar_vocabulary_new(tokenizer.handle_.get(), &handle, error.receive()), error);
  if (!status) return fail(status.error().with_context("vocabulary"));
  return GrammarVocabulary(handle);
}

Result<Grammar> GrammarVocabulary::compile(const GrammarSpec& spec) const {
  OwnedText error;
  PacelineGrammar* handle = nullptr;
  const auto status =
      status_from(paceline_grammar_new(handle_.get(), number_of(spec.kind), spec.text.data(),
                                       spec.text.size(), &handle, error.receive()),
                  error);
  if (!status) return fail(status.error().with_context(std::string(name_of(spec.kind))));
  return Grammar(handle);
}

}  // namespace paceline::text
