//! Grammars over a tokenizer's vocabulary: the `paceline_grammar_*` and `paceline_matcher_*`
//! functions.
//!
//! llguidance with the vocabulary of `Tokenizer`, and one token more that no tokenizer has: the
//! end. So whether a text may end is a bit of the mask, and which tokens end an answer is the
//! sampler's affair. A grammar is foreign text: its size, its nesting, its states, its memory and
//! its time are bounded.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use crate::bounded::Limits;
use crate::confined::{self, Limit};
use crate::grammar_spaces::{bound_lark, bound_schema};
use crate::tokenizer::Tokenizer;

pub const JSON_OBJECT: i32 = 0;
pub const JSON_SCHEMA: i32 = 1;
pub const REGEX: i32 = 2;
pub const LARK: i32 = 3;

pub const MAX_TEXT_BYTES: usize = 64 << 10;
/// Readers of grammars follow brackets by recursion.
const MAX_NESTING: usize = 100;
/// Real grammars take some megabytes and some milliseconds.
const COMPILING: Limits = Limits { bytes: 64 << 20, time: Duration::from_secs(2) };
/// Runs out of time that have not come to their next allocation yet: meanwhile nothing is compiled.
const MAX_STRAYS: usize = 8;
/// Texts that are known to meet a limit; the oldest is forgotten for a new one.
const MAX_REFUSED: usize = 1024;
/// A text that was out of time may have met a busy machine; so long it is not tried again.
const TIME_REFUSED: Duration = Duration::from_secs(60);
/// Longer tokens are never chosen under a grammar.
const MAX_TOKEN_BYTES: usize = 255;

/// A text that is not compiled again, by its hash.
struct Refused {
    hash: u64,
    limit: Limit,
    until: Option<Instant>,
}

pub struct Vocabulary {
    factory: Arc<ParserFactory>,
    size: u32,
    refused: Mutex<VecDeque<Refused>>,
}

pub struct Grammar {
    fresh: Matcher,
    size: u32,
}

pub struct TokenMatcher {
    inner: Matcher,
    size: u32,
}

/// Of llguidance's, lower where the default is for a process that serves nothing else. They bound the
/// work of a mask in units of its own: the slowest that was found took 99 ms.
fn parser_limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 1_000,
        step_lexer_fuel: 150_000,
        step_max_items: 50_000,
        max_lexer_states: 30_000,
        max_grammar_size: 100_000,
        precompute_large_lexemes: false,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// The bytes of each token as a trie wants them: a special one behind the byte 0xFF, which no text
/// has; nothing for one that is never chosen.
fn words_of(tokenizer: &Tokenizer, size: u32) -> Vec<Vec<u8>> {
    const MARK: u8 = TokTrie::SPECIAL_TOKEN_MARKER;
    let word = |id: u32| {
        let bytes = tokenizer.bytes_of(id);
        if tokenizer.is_special(id) {
            return [&[MARK], bytes.as_slice()].concat();
        }
        if bytes.first() == Some(&MARK) || bytes.len() > MAX_TOKEN_BYTES {
            return Vec::new();
        }
        bytes
    };
    let mut words: Vec<Vec<u8>> = (0..size).map(word).collect();
    words.push([&[MARK], b"<the end>".as_slice()].concat());
    words
}

/// llguidance's errors end with its state, or with a note that they do not.
fn message_of(error: &str) -> String {
    let line = error.split("\n<").next().unwrap_or(error);
    line.strip_suffix("<non-verbose/>").unwrap_or(line).trim().to_string()
}

fn check_nesting(text: &str) -> Result<(), String> {
    let mut depth = 0usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(format!("is nested more than {MAX_NESTING} levels deep"));
        }
    }
    Ok(())
}

fn read(kind: i32, text: &[u8]) -> Result<TopLevelGrammar, String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("has {} bytes, at most {MAX_TEXT_BYTES} are read", text.len()));
    }
    let text = std::str::from_utf8(text)
        .map_err(|error| format!("is not UTF-8 at byte {}", error.valid_up_to()))?;
    if text.contains('\0') {
        return Err("has a zero byte".to_string());
    }
    match kind {
        JSON_OBJECT => {
            Ok(TopLevelGrammar::from_json_schema(bound_schema(json!({"type": "object"}))))
        }
        JSON_SCHEMA => {
            let schema: Value =
                serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
            Ok(TopLevelGrammar::from_json_schema(bound_schema(schema)))
        }
        REGEX => check_nesting(text).map(|()| TopLevelGrammar::from_regex(text)),
        LARK => check_nesting(text).map(|()| TopLevelGrammar::from_lark(bound_lark(text))),
        _ => Err(format!("is of kind {kind}, expected 0 to 3")),
    }
}

fn hash_of(kind: i32, text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, text).hash(&mut hasher);
    hasher.finish()
}

/// What is made once for the process must not be made, and lost, in confined work: llguidance's
/// hook, which gathers a panic's backtrace, is installed by the first grammar. Confined work gathers
/// none, as that takes locks of the standard library and fills its caches.
fn prepare(factory: &ParserFactory) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for grammar in [
            TopLevelGrammar::from_json_schema(bound_schema(json!({"enum": ["a", 1.5]}))),
            TopLevelGrammar::from_regex("a|[b-d]{2}"),
        ] {
            let _ = Matcher::new(factory.create_parser(grammar)).compute_mask();
        }
        let gathers = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !confined::is_confined() {
                gathers(panic);
            }
        }));
    });
}

/// Stopped work never gives back its counts on the vocabulary, which so lives on: here, within reach
/// of whoever looks for leaks. Whoever comes with the same tokens has it again, so that what stays is
/// bounded by the tokenizers that there are, however many texts are stopped and models loaded.
static KEPT: Mutex<Vec<Arc<ParserFactory>>> = Mutex::new(Vec::new());

fn kept_with(words: &[Vec<u8>]) -> Option<Arc<ParserFactory>> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let has_them = |factory: &&Arc<ParserFactory>| {
        let trie = factory.tok_env().tok_trie();
        trie.vocab_size() == words.len()
            && (0..).zip(words).all(|(id, word)| trie.token(id) == word.as_slice())
    };
    kept.iter().find(has_them).cloned()
}

fn factory_of(size: u32, words: &[Vec<u8>]) -> Result<ParserFactory, String> {
    let trie = TokTrie::from(&TokRxInfo::new(size + 1, size), words);
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let slices = SlicedBiasComputer::general_slices();
    let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
        .map_err(|error| message_of(&error.to_string()))?;
    factory.quiet();
    *factory.limits_mut() = parser_limits();
    prepare(&factory);
    Ok(factory)
}

impl Vocabulary {
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, String> {
        let size = u32::try_from(tokenizer.vocabulary_size())
            .ok()
            .filter(|size| *size < u32::MAX / 2)
            .ok_or("the vocabulary is too large for grammars")?;
        let words = words_of(tokenizer, size);
        let factory = match kept_with(&words) {
            Some(factory) => factory,
            None => Arc::new(factory_of(size, &words)?),
        };
        Ok(Vocabulary { factory, size, refused: Mutex::default() })
    }

    pub fn compile(&self, kind: i32, text: &[u8]) -> Result<Grammar, String> {
        let grammar = read(kind, text)?;
        let hash = hash_of(kind, text);
        if let Some(limit) = self.limit_met_before(hash) {
            return Err(limit.to_string());
        }
        if confined::strays() >= MAX_STRAYS {
            return Err("is not compiled now: too many others are out of time".to_string());
        }
        let factory = Arc::clone(&self.factory);
        let compiled = confined::run(COMPILING, move || {
            let mut matcher = Matcher::new(factory.create_parser(grammar.clone()));
            // The first mask shows what the start of a grammar takes.
            matcher.compute_mask().map(|_| matcher).map_err(|error| error.to_string())
        });
        match compiled {
            Ok(Ok(fresh)) => Ok(Grammar { fresh, size: self.size }),
            Ok(Err(error)) => Err(message_of(&error)),
            Err(limit) => {
                self.keep_for_good();
                self.remember(hash, limit);
                Err(limit.to_string())
            }
        }
    }

    fn keep_for_good(&self) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.iter().any(|factory| Arc::ptr_eq(factory, &self.factory)) {
            kept.push(Arc::clone(&self.factory));
        }
    }

    fn limit_met_before(&self, hash: u64) -> Option<Limit> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        refused.retain(|entry| entry.until.is_none_or(|until| until > now));
        refused.iter().find(|entry| entry.hash == hash).map(|entry| entry.limit)
    }

    fn remember(&self, hash: u64, limit: Limit) {
        let until = match limit {
            Limit::Memory(_) => None,
            Limit::Time(_) => Some(Instant::now() + TIME_REFUSED),
            Limit::Threads => return,
        };
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.push_back(Refused { hash, limit, until });
        if refused.len() > MAX_REFUSED {
            refused.pop_front();
        }
    }
}

impl Grammar {
    /// At the start of the text. What was learned of the grammar's states is shared.
    pub fn matcher(&self) -> TokenMatcher {
        TokenMatcher { inner: self.fresh.clone(), size: self.size }
    }
}

impl TokenMatcher {
    /// Fills `words` with the allowed tokens; gives whether the text may end here.
    pub fn mask(&mut self, words: &mut [u32]) -> Result<bool, String> {
        words.fill(0);
        if self.inner.is_stopped() && !self.inner.is_error() {
            return Ok(true);
        }
        let mask = self.inner.compute_mask().map_err(|error| message_of(&error.to_string()))?;
        let may_end = mask.is_allowed(self.size);
        let given = mask.as_slice();
        let count = given.len().min(words.len());
        words[..count].copy_from_slice(&given[..count]);
        // The end is no token of the model's.
        if let Some(word) = words.get_mut(self.size as usize / 32) {
            *word &= !(1 << (self.size % 32));
        }
        Ok(may_end)
    }

    /// After an error the matcher is of no more use.
    pub fn commit(&mut self, tokens: &[u32]) -> Result<(), String> {
        if let Some(token) = tokens.iter().find(|token| **token >= self.size) {
            return Err(format!("token {token} is outside the vocabulary of {}", self.size));
        }
        for token in tokens {
            let taken = self.inner.try_consume_tokens(&[*token]);
            if taken.map_err(|error| message_of(&error.to_string()))? == 0 {
                return Err(format!("token {token} is not allowed here"));
            }
        }
        Ok(())
    }

    pub fn roll_back(&mut self, tokens: usize) -> Result<(), String> {
        self.inner.rollback(tokens).map_err(|error| message_of(&error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer_of(letters: &str) -> Tokenizer {
        let ids = letters.chars().enumerate().map(|(id, letter)| (letter.to_string(), json!(id)));
        let vocabulary: serde_json::Map<String, Value> = ids.collect();
        let model = json!({"type": "WordLevel", "vocab": vocabulary, "unk_token": "0"});
        let file = json!({"version": "1.0", "added_tokens": [], "model": model});
        Tokenizer::parse(file.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_vocabulary_that_stays_is_used_again() {
        let digits = tokenizer_of("0123456789");
        let first = Vocabulary::new(&digits).unwrap();
        let second = Vocabulary::new(&digits).unwrap();
        assert!(!Arc::ptr_eq(&first.factory, &second.factory), "none has to stay yet");
        let many_states = br#"{"type": "integer", "multipleOf": 99999989}"#;
        let error = first.compile(JSON_SCHEMA, many_states).err().unwrap();
        assert!(error.contains("MiB of memory") || error.contains("is not done"), "{error}");
        let again = Vocabulary::new(&digits).unwrap();
        assert!(Arc::ptr_eq(&first.factory, &again.factory));
        assert!(again.compile(REGEX, b"[0-9]+").is_ok());
        let other = Vocabulary::new(&tokenizer_of("0123456798")).unwrap();
        assert!(!Arc::ptr_eq(&first.factory, &other.factory), "other tokens");
    }
}
