//! Tokenizers, chat templates and grammars for Paceline, behind the C header `include/paceline_text.h`.
//!
//! Not a Rust API: everything public is `extern "C"`. The header documents ownership, errors and
//! threads; `border` holds what all functions share, and no panic leaves this crate.

mod border;
mod bounded;
mod chat_template;
mod confined;
mod grammar;
mod grammar_border;
mod grammar_spaces;
mod growth;
mod python_json;
mod token_bytes;
mod tokenizer;

#[global_allocator]
static ALLOCATOR: bounded::Allocator = bounded::Allocator;
