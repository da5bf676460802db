//! How much longer a text can get by a tokenizer's rules.
//!
//! A foreign tokenizer.json may say that each "a" is to be replaced by a megabyte, or a hundred
//! times by two. Such a file is refused when it is loaded, so that the memory of all later calls is
//! bounded by the text that they are given.

use serde_json::Value;
use tokenizers::tokenizer::Tokenizer;

/// Llama's rules have 12, those with a compiled table of characters some 100.
const MAX_GROWTH: f64 = 1000.0;
const MAX_PARTS: usize = 64;

/// The bound of one part's growth.
fn growth_of(part: &Value) -> f64 {
    let length = |name: &str| part[name].as_str().map_or(0, str::len) as f64;
    match part["type"].as_str() {
        Some("Replace") => {
            let content = length("content");
            match part["pattern"]["String"].as_str() {
                Some(pattern) if !pattern.is_empty() => (content / pattern.len() as f64).max(1.0),
                // A regular expression may match nothing, between any two characters.
                _ => 1.0 + content,
            }
        }
        Some("Prepend") => 1.0 + length("prepend"),
        Some("Metaspace") => 4.0,
        Some("ByteLevel") => 2.0,
        // The longest decomposition of one character.
        Some("NFKC" | "NFKD" | "Precompiled" | "BertNormalizer") => 18.0,
        Some("NFC" | "NFD") => 4.0,
        _ => 1.0,
    }
}

/// Multiplies and counts all parts, of sequences too.
fn walk(value: &Value, growth: &mut f64, parts: &mut usize) {
    match value {
        Value::Object(members) => {
            *growth *= growth_of(value);
            *parts += usize::from(members.contains_key("type"));
            members.values().for_each(|member| walk(member, growth, parts));
        }
        Value::Array(list) => list.iter().for_each(|member| walk(member, growth, parts)),
        _ => {}
    }
}

fn check_part(name: &str, rules: &Value) -> Result<(), String> {
    let (mut growth, mut parts) = (1.0, 0);
    walk(rules, &mut growth, &mut parts);
    if parts > MAX_PARTS {
        return Err(format!("{name}: has {parts} parts, at most {MAX_PARTS} are read"));
    }
    if growth > MAX_GROWTH {
        return Err(format!(
            "{name}: can make a text {growth:.0} times longer, at most {MAX_GROWTH} are allowed"
        ));
    }
    Ok(())
}

/// Refuses a tokenizer whose normalizer, pre-tokenizer or decoder lets texts grow without measure.
pub fn check(tokenizer: &Tokenizer) -> Result<(), String> {
    let json = |value: Result<Value, serde_json::Error>| value.map_err(|error| error.to_string());
    check_part("normalizer", &json(serde_json::to_value(tokenizer.get_normalizer()))?)?;
    check_part("pre_tokenizer", &json(serde_json::to_value(tokenizer.get_pre_tokenizer()))?)?;
    check_part("decoder", &json(serde_json::to_value(tokenizer.get_decoder()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_of_known_models_pass() {
        let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
        let prepend = json!({"type": "Prepend", "prepend": "\u{2581}"});
        let llama = json!({"type": "Sequence", "normalizers": [prepend, replace]});
        assert_eq!(check_part("normalizer", &llama), Ok(()));
        let table = json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"});
        let spaces = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "});
        let unigram = json!({"type": "Sequence", "normalizers": [table, spaces]});
        assert_eq!(check_part("normalizer", &unigram), Ok(()));
        assert_eq!(check_part("normalizer", &Value::Null), Ok(()));
    }

    #[test]
    fn rules_that_let_a_text_explode_are_refused() {
        let huge =
            json!({"type": "Replace", "pattern": {"String": "a"}, "content": "b".repeat(2000)});
        let error = check_part("normalizer", &huge).unwrap_err();
        assert!(error.starts_with("normalizer: can make a text 2000 times longer"), "{error}");
        let double = json!({"type": "Replace", "pattern": {"Regex": "a"}, "content": "a"});
        let many = json!({"type": "Sequence", "decoders": vec![double; 10]});
        assert!(check_part("decoder", &many).is_err());
        let parts = json!({"type": "Sequence", "decoders": vec![json!({"type": "Fuse"}); 64]});
        assert!(check_part("decoder", &parts).unwrap_err().contains("has 65 parts"));
    }
}
