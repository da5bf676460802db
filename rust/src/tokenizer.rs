//! Hugging Face tokenizer.json files: the `paceline_tokenizer_*` functions.

use std::ffi::c_char;

use tokenizers::tokenizer::Tokenizer as Inner;

use crate::border::{Ids, Text, borrow, borrow_text, guard};
use crate::growth;
use crate::token_bytes::TokenBytes;

/// Longest token that is taken; the longest known has 512 bytes.
const MAX_TOKEN_BYTES: usize = 64 << 10;

pub struct Tokenizer {
    inner: Inner,
    vocabulary_size: u64,
    special_ids: Vec<u32>,
    bytes: TokenBytes,
}

impl Tokenizer {
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let mut inner = Inner::from_bytes(json).map_err(|error| error.to_string())?;
        // Those of training: they would cut a prompt short without a word.
        inner.with_truncation(None).map_err(|error| error.to_string())?;
        inner.with_padding(None);
        growth::check(&inner)?;
        let vocabulary = inner.get_vocab(true);
        if let Some((token, id)) = vocabulary.iter().find(|(t, _)| t.len() > MAX_TOKEN_BYTES) {
            let bytes = token.len();
            return Err(format!(
                "token {id}: has {bytes} bytes, at most {MAX_TOKEN_BYTES} are read"
            ));
        }
        let highest = vocabulary.into_values().max();
        let mut special_ids: Vec<u32> = inner
            .get_added_tokens_decoder()
            .into_iter()
            .filter(|(_, token)| token.special)
            .map(|(id, _)| id)
            .collect();
        special_ids.sort_unstable();
        let vocabulary_size = highest.map_or(0, |id| u64::from(id) + 1);
        let bytes = TokenBytes::new(&inner);
        Ok(Tokenizer { inner, vocabulary_size, special_ids, bytes })
    }

    pub fn vocabulary_size(&self) -> u64 {
        self.vocabulary_size
    }

    /// Nothing for an id without a token.
    pub fn bytes_of(&self, id: u32) -> Vec<u8> {
        self.bytes.of(&self.inner, id)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.special_ids.binary_search(&id).is_ok()
    }
}

/// # Safety
/// As the header says: `json` is borrowed, `tokenizer` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_tokenizer_new(
    json: *const c_char,
    json_size: usize,
    tokenizer: *mut *mut Tokenizer,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            let parsed = Tokenizer::parse(borrow(json.cast(), json_size))?;
            tokenizer.write(Box::into_raw(Box::new(parsed)));
            Ok(())
        })
    }
}

/// # Safety
/// `tokenizer` is null or came from `paceline_tokenizer_new` and was not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(unsafe { Box::from_raw(tokenizer) });
    }
}

/// # Safety
/// `tokenizer` is valid, `text` is borrowed, `ids` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: *const c_char,
    text_size: usize,
    add_special_tokens: bool,
    ids: *mut Ids,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            let text = borrow_text(text, text_size);
            let encoding = (*tokenizer)
                .inner
                .encode_fast(text.as_ref(), add_special_tokens)
                .map_err(|error| error.to_string())?;
            ids.write(encoding.get_ids().to_vec().into());
            Ok(())
        })
    }
}

/// # Safety
/// `tokenizer` is valid, `ids` are borrowed, `text` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    id_count: usize,
    skip_special_tokens: bool,
    text: *mut Text,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            let decoded = (*tokenizer)
                .inner
                .decode(borrow(ids, id_count), skip_special_tokens)
                .map_err(|error| error.to_string())?;
            text.write(decoded.into());
            Ok(())
        })
    }
}

/// # Safety
/// `tokenizer` is valid, `bytes` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_tokenizer_token_bytes(
    tokenizer: *const Tokenizer,
    id: u32,
    bytes: *mut Text,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            bytes.write((*tokenizer).bytes.of(&(*tokenizer).inner, id).into());
            Ok(())
        })
    }
}

/// # Safety
/// `tokenizer` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_tokenizer_vocabulary_size(tokenizer: *const Tokenizer) -> u64 {
    unsafe { (*tokenizer).vocabulary_size }
}

/// # Safety
/// `tokenizer` is valid, `token` is borrowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_tokenizer_token_id(
    tokenizer: *const Tokenizer,
    token: *const c_char,
    token_size: usize,
) -> i64 {
    let mut id = -1;
    unsafe {
        guard(std::ptr::null_mut(), || {
            let bytes = borrow(token.cast::<u8>(), token_size);
            if let Ok(token) = std::str::from_utf8(bytes) {
                id = (*tokenizer).inner.token_to_id(token).map_or(-1, i64::from);
            }
            Ok(())
        });
    }
    id
}

/// # Safety
/// `tokenizer` is valid, `ids` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_tokenizer_special_ids(
    tokenizer: *const Tokenizer,
    ids: *mut Ids,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            ids.write((*tokenizer).special_ids.clone().into());
            Ok(())
        })
    }
}
