//! The C functions of `grammar.rs`.

use std::ffi::c_char;

use crate::border::{Text, borrow, guard};
use crate::grammar::{Grammar, TokenMatcher, Vocabulary};
use crate::tokenizer::Tokenizer;

/// # Safety
/// As the header says: `tokenizer` is valid, `vocabulary` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_grammar_vocabulary_new(
    tokenizer: *const Tokenizer,
    vocabulary: *mut *mut Vocabulary,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            vocabulary.write(Box::into_raw(Box::new(Vocabulary::new(&*tokenizer)?)));
            Ok(())
        })
    }
}

/// # Safety
/// `vocabulary` is null or came from `paceline_grammar_vocabulary_new` and was not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_grammar_vocabulary_free(vocabulary: *mut Vocabulary) {
    if !vocabulary.is_null() {
        drop(unsafe { Box::from_raw(vocabulary) });
    }
}

/// # Safety
/// `vocabulary` is valid, `text` is borrowed, `grammar` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_grammar_new(
    vocabulary: *const Vocabulary,
    kind: i32,
    text: *const c_char,
    text_size: usize,
    grammar: *mut *mut Grammar,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            let compiled = (*vocabulary).compile(kind, borrow(text.cast(), text_size))?;
            grammar.write(Box::into_raw(Box::new(compiled)));
            Ok(())
        })
    }
}

/// # Safety
/// `grammar` is null or came from `paceline_grammar_new` and was not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_grammar_free(grammar: *mut Grammar) {
    if !grammar.is_null() {
        drop(unsafe { Box::from_raw(grammar) });
    }
}

/// # Safety
/// `grammar` is valid, `matcher` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_matcher_new(
    grammar: *const Grammar,
    matcher: *mut *mut TokenMatcher,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            matcher.write(Box::into_raw(Box::new((*grammar).matcher())));
            Ok(())
        })
    }
}

/// # Safety
/// `matcher` is null or came from `paceline_matcher_new` and was not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_matcher_free(matcher: *mut TokenMatcher) {
    if !matcher.is_null() {
        drop(unsafe { Box::from_raw(matcher) });
    }
}

/// # Safety
/// `matcher` is valid and used by nobody else, `words`, `may_end` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_matcher_mask(
    matcher: *mut TokenMatcher,
    words: *mut u32,
    word_count: usize,
    may_end: *mut bool,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            let words = match word_count {
                0 => &mut [],
                count => std::slice::from_raw_parts_mut(words, count),
            };
            may_end.write((*matcher).mask(words)?);
            Ok(())
        })
    }
}

/// # Safety
/// `matcher` is valid and used by nobody else, `tokens` are borrowed, `error` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_matcher_commit(
    matcher: *mut TokenMatcher,
    tokens: *const u32,
    token_count: usize,
    error: *mut Text,
) -> i32 {
    unsafe { guard(error, || (*matcher).commit(borrow(tokens, token_count))) }
}

/// # Safety
/// `matcher` is valid and used by nobody else, `error` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_matcher_roll_back(
    matcher: *mut TokenMatcher,
    token_count: usize,
    error: *mut Text,
) -> i32 {
    unsafe { guard(error, || (*matcher).roll_back(token_count)) }
}
