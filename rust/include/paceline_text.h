/* Tokenizers, chat templates and grammars: the C border of the Rust crate in rust/.
 *
 * Not for use by the rest of the project: src/text/ is its C++ face and the only includer.
 *
 * Ownership: what a function hands out through a PacelineText, PacelineIds or handle pointer is
 * owned by the caller, who gives it back to the matching *_free function exactly once. What goes in
 * (data, size) is borrowed for the call; data may be NULL where size is 0. A *_free of NULL, or of
 * a zeroed struct, does nothing.
 *
 * Errors: 0 is success; otherwise the outputs are untouched and *error holds one line of UTF-8
 * (owned by the caller). A panic on the Rust side becomes PACELINE_TEXT_INTERNAL.
 *
 * Threads: handles may be used from several threads at once, except for *_free and matchers, which
 * one thread uses at a time.
 *
 * Checked in by hand; rust/src/border.rs has the same layouts.
 */
#ifndef PACELINE_TEXT_H_
#define PACELINE_TEXT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PacelineTokenizer PacelineTokenizer;
typedef struct PacelineTemplate PacelineTemplate;
typedef struct PacelineGrammarVocabulary PacelineGrammarVocabulary;
typedef struct PacelineGrammar PacelineGrammar;
typedef struct PacelineMatcher PacelineMatcher;

/* UTF-8 without a terminating zero, owned by the caller. */
typedef struct {
  char* data;
  size_t size;
} PacelineText;

/* Token ids, owned by the caller. */
typedef struct {
  uint32_t* data;
  size_t size;
} PacelineIds;

enum {
  PACELINE_TEXT_OK = 0,
  PACELINE_TEXT_INVALID = 1,  /* the input is at fault */
  PACELINE_TEXT_INTERNAL = 2, /* a panic: a bug of this library or the crates below it */
};

void paceline_text_free(PacelineText text);
void paceline_ids_free(PacelineIds ids);

/* Reads a Hugging Face tokenizer.json. Its truncation and padding are switched off. */
int32_t paceline_tokenizer_new(const char* json, size_t json_size, PacelineTokenizer** tokenizer,
                               PacelineText* error);
void paceline_tokenizer_free(PacelineTokenizer* tokenizer);

/* Bytes that are no UTF-8 are read as U+FFFD. */
int32_t paceline_tokenizer_encode(const PacelineTokenizer* tokenizer, const char* text,
                                  size_t text_size, bool add_special_tokens, PacelineIds* ids,
                                  PacelineText* error);

/* Ids without a token are left out. */
int32_t paceline_tokenizer_decode(const PacelineTokenizer* tokenizer, const uint32_t* ids,
                                  size_t id_count, bool skip_special_tokens, PacelineText* text,
                                  PacelineText* error);

/* The bytes that a token stands for, which need not be UTF-8; none for an id without a token. */
int32_t paceline_tokenizer_token_bytes(const PacelineTokenizer* tokenizer, uint32_t id,
                                       PacelineText* bytes, PacelineText* error);

/* The highest id plus one; 0 for an empty vocabulary. */
uint64_t paceline_tokenizer_vocabulary_size(const PacelineTokenizer* tokenizer);

/* The id of a token as the vocabulary spells it; -1 where there is none. */
int64_t paceline_tokenizer_token_id(const PacelineTokenizer* tokenizer, const char* token,
                                    size_t token_size);

/* The ids of the added tokens marked special, ascending. */
int32_t paceline_tokenizer_special_ids(const PacelineTokenizer* tokenizer, PacelineIds* ids,
                                       PacelineText* error);

/* Parses a Jinja chat template with the settings of Hugging Face's apply_chat_template. */
int32_t paceline_template_new(const char* source, size_t source_size, PacelineTemplate** tmpl,
                              PacelineText* error);
void paceline_template_free(PacelineTemplate* tmpl);

/* Renders with the members of two JSON objects as variables, those of `variables` where both name
 * one. A template that calls raise_exception gives its message as the error. Work and output are
 * bounded. */
int32_t paceline_template_render(const PacelineTemplate* tmpl, const char* variables_json,
                                 size_t variables_size, const char* extra_json, size_t extra_size,
                                 PacelineText* text, PacelineText* error);

/* A tokenizer's tokens as grammars want them; the tokenizer may be freed before it. */
int32_t paceline_grammar_vocabulary_new(const PacelineTokenizer* tokenizer,
                                        PacelineGrammarVocabulary** vocabulary,
                                        PacelineText* error);
void paceline_grammar_vocabulary_free(PacelineGrammarVocabulary* vocabulary);

enum {
  PACELINE_GRAMMAR_JSON_OBJECT = 0, /* any JSON object; no text */
  PACELINE_GRAMMAR_JSON_SCHEMA = 1,
  PACELINE_GRAMMAR_REGEX = 2, /* for the whole text */
  PACELINE_GRAMMAR_LARK = 3,
};

/* Compiles a grammar. Its size, nesting, states, memory and time are bounded. The vocabulary may be
 * freed before it. */
int32_t paceline_grammar_new(const PacelineGrammarVocabulary* vocabulary, int32_t kind,
                             const char* text, size_t text_size, PacelineGrammar** grammar,
                             PacelineText* error);
void paceline_grammar_free(PacelineGrammar* grammar);

/* A place in a text of the grammar: its start. The grammar may be freed before it. */
int32_t paceline_matcher_new(const PacelineGrammar* grammar, PacelineMatcher** matcher,
                             PacelineText* error);
void paceline_matcher_free(PacelineMatcher* matcher);

/* The tokens that may come next: bit (id % 32) of words[id / 32]. Ids beyond the words are left
 * out, words beyond the vocabulary are 0. *may_end: whether the text may end here. */
int32_t paceline_matcher_mask(PacelineMatcher* matcher, uint32_t* words, size_t word_count,
                              bool* may_end, PacelineText* error);

/* Goes on by tokens that the masks allow; after an error the matcher is of no more use. */
int32_t paceline_matcher_commit(PacelineMatcher* matcher, const uint32_t* tokens,
                                size_t token_count, PacelineText* error);

/* Takes back the last tokens that were committed. */
int32_t paceline_matcher_roll_back(PacelineMatcher* matcher, size_t token_count,
                                   PacelineText* error);

#ifdef __cplusplus
}
#endif

#endif /* PACELINE_TEXT_H_ */
