//! How much white space JSON of a grammar may have between its tokens.
//!
//! JSON allows any amount, and a small model that knows nothing better pads without end. What
//! people and models write is one space, or a line break and an indentation; so much is allowed.
//! A schema that says `x-guidance` itself, llguidance's own keyword, keeps what it says.

use serde_json::{Deserializer, Value, json};

const OPTIONS: &str = "x-guidance";
const PATTERN: &str = "whitespace_pattern";
/// Between two tokens there is one of these, or nothing.
const SPACES: &str = r"\x20|\r?\n[\x20\t]{0,20}";

fn says_spaces(options: &Value) -> bool {
    options.get(PATTERN).is_some() || options.get("whitespace_flexible").is_some()
}

/// What is no schema at all is left to llguidance.
pub fn bound_schema(schema: Value) -> Value {
    let mut members = match schema {
        Value::Object(members) => members,
        Value::Bool(true) => serde_json::Map::new(),
        other => return other,
    };
    let options = members.entry(OPTIONS).or_insert_with(|| json!({}));
    if !says_spaces(options)
        && let Some(options) = options.as_object_mut()
    {
        options.insert(PATTERN.to_string(), json!(SPACES));
    }
    Value::Object(members)
}

/// The length of what begins `text` and is no place for a keyword: a string, a regular expression, a
/// comment; of anything else one character. Spelled as llguidance's reader of Lark has them.
fn skipped(text: &str) -> usize {
    let closed_by = |quote: u8| {
        let mut is_escaped = false;
        let end = text.bytes().skip(1).position(|byte| {
            let ends = byte == quote && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        end.map_or(text.len(), |end| end + 2)
    };
    let line = || text.find('\n').unwrap_or(text.len());
    match text.as_bytes() {
        [b'"', ..] => closed_by(b'"'),
        [b'#', ..] | [b'/', b'/', ..] => line(),
        [b'/', ..] => closed_by(b'/'),
        _ => text.chars().next().map_or(0, char::len_utf8),
    }
}

/// `text` with what `bound_schema` says in each of its `%json` schemas.
pub fn bound_lark(text: &str) -> String {
    const KEYWORD: &str = "%json";
    let mut bounded = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let Some(behind) = rest.strip_prefix(KEYWORD) else {
            let (taken, left) = rest.split_at(skipped(rest));
            bounded.push_str(taken);
            rest = left;
            continue;
        };
        bounded.push_str(KEYWORD);
        rest = behind;
        let mut values = Deserializer::from_str(behind).into_iter::<Value>();
        let Some(Ok(schema)) = values.next() else {
            break; // llguidance refuses the text for this
        };
        let (taken, left) = behind.split_at(values.byte_offset());
        // Line numbers in messages stay what they are.
        let lines = taken.matches('\n').count();
        bounded.push_str(&format!(" {}{}", bound_schema(schema), "\n".repeat(lines)));
        rest = left;
    }
    bounded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaces() -> Value {
        json!({ PATTERN: SPACES })
    }

    #[test]
    fn a_schema_that_says_nothing_is_bounded() {
        let bounded = bound_schema(json!({"type": "string"}));
        assert_eq!(bounded, json!({"type": "string", OPTIONS: spaces()}));
        assert_eq!(bound_schema(json!(true)), json!({ OPTIONS: spaces() }));
        let lenient = bound_schema(json!({ OPTIONS: {"lenient": true} }));
        assert_eq!(lenient, json!({ OPTIONS: {"lenient": true, PATTERN: SPACES} }));
        for own in [
            json!({ OPTIONS: {"whitespace_flexible": false} }),
            json!({ OPTIONS: {PATTERN: " "} }),
            json!({ OPTIONS: 7 }),
            json!(false),
            json!(3),
        ] {
            assert_eq!(bound_schema(own.clone()), own);
        }
    }

    #[test]
    fn the_schemas_of_a_lark_text_are_bounded() {
        let with = json!({"type": "null", OPTIONS: spaces()}).to_string();
        let cases = [
            (
                "start: a\na: %json {\"type\":\n \"null\"}\nb: \"x\"",
                format!("start: a\na: %json {with}\n\nb: \"x\""),
            ),
            (
                "a: %json{\"type\": \"null\"} | %json {\"type\": \"null\"}",
                format!("a: %json {with} | %json {with}"),
            ),
            ("a: \"é\" %json true", format!("a: \"é\" %json {}", bound_schema(json!(true)))),
        ];
        for (text, bounded) in cases {
            assert_eq!(bound_lark(text), bounded);
        }
    }

    #[test]
    fn what_only_looks_like_a_schema_is_left_alone() {
        for text in [
            "",
            "start: \"%json {}\"",
            "start: \"\\\"%json {}\"",
            "start: /%json {}/i",
            "start: /\\/%json {}/",
            "# %json {}\nstart: \"a\"",
            "start: \"a\" // %json {}",
            "start: %json",
            "start: %json {\"a\": ",
            "start: %json nothing\n",
            "start: \"open %json {}",
        ] {
            assert_eq!(bound_lark(text), text);
        }
    }
}
