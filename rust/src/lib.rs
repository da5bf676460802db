//! Tokenizers and chat templates for Paceline, behind the C header `include/paceline_text.h`.
//!
//! Not a Rust API: everything public is `extern "C"`. The header documents ownership, errors and
//! threads; `border` holds what all functions share, and no panic leaves this crate.

mod border;
mod chat_template;
mod python_json;
mod tokenizer;
