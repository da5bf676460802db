//! The bytes that one token stands for, which decoding to text does not tell: a token may be a part
//! of a character.

use std::collections::HashMap;

use tokenizers::tokenizer::Tokenizer as Inner;

/// How a vocabulary spells bytes.
enum Spelling {
    /// GPT-2's: each byte a printable character.
    ByteLevel(HashMap<char, u8>),
    /// SentencePiece's: "<0xNN>", and a low line for a space.
    Pieces { has_byte_tokens: bool, has_low_lines: bool },
}

pub struct TokenBytes {
    spelling: Spelling,
    /// Of added tokens, which are spelled as they are.
    added: HashMap<u32, String>,
}

/// The characters that byte-level vocabularies write for bytes.
fn byte_characters() -> HashMap<char, u8> {
    let is_itself = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut others = 0u32;
    (0..=255u8)
        .map(|byte| {
            let character = if is_itself(byte) {
                char::from(byte)
            } else {
                others += 1;
                char::from_u32(0xFF + others).unwrap_or('\u{FFFD}')
            };
            (character, byte)
        })
        .collect()
}

/// The byte of "<0x0A>".
fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_hexadecimal = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hexadecimal { u8::from_str_radix(digits, 16).ok() } else { None }
}

impl TokenBytes {
    pub fn new(inner: &Inner) -> Self {
        let decoder = inner
            .get_decoder()
            .and_then(|decoder| serde_json::to_string(decoder).ok())
            .unwrap_or_default();
        let spelling = if decoder.contains("\"ByteLevel\"") {
            Spelling::ByteLevel(byte_characters())
        } else {
            Spelling::Pieces {
                has_byte_tokens: decoder.contains("\"ByteFallback\""),
                has_low_lines: decoder.contains('\u{2581}'),
            }
        };
        let added = inner
            .get_added_tokens_decoder()
            .into_iter()
            .map(|(id, token)| (id, token.content))
            .collect();
        TokenBytes { spelling, added }
    }

    /// Nothing for an id without a token.
    pub fn of(&self, inner: &Inner, id: u32) -> Vec<u8> {
        if let Some(content) = self.added.get(&id) {
            return content.clone().into_bytes();
        }
        let Some(token) = inner.id_to_token(id) else { return Vec::new() };
        match &self.spelling {
            Spelling::ByteLevel(bytes) => {
                let mut result = Vec::with_capacity(token.len());
                for character in token.chars() {
                    match bytes.get(&character) {
                        Some(byte) => result.push(*byte),
                        None => {
                            result.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes())
                        }
                    }
                }
                result
            }
            Spelling::Pieces { has_byte_tokens, has_low_lines } => {
                if let Some(byte) = byte_token(&token).filter(|_| *has_byte_tokens) {
                    return vec![byte];
                }
                let text = if *has_low_lines { token.replace('\u{2581}', " ") } else { token };
                text.into_bytes()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        let characters = byte_characters();
        assert_eq!(characters.len(), 256);
        assert_eq!(characters[&'a'], b'a');
        assert_eq!(characters[&'\u{120}'], b' ');
        assert_eq!(characters[&'\u{10A}'], b'\n');
    }

    #[test]
    fn byte_tokens() {
        assert_eq!(byte_token("<0x0A>"), Some(10));
        assert_eq!(byte_token("<0xFF>"), Some(255));
        assert_eq!(byte_token("<0xZZ>"), None);
        assert_eq!(byte_token("<0x+1>"), None);
        assert_eq!(byte_token("0x0A"), None);
    }
}
