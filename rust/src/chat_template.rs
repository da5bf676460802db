//! Chat templates: the `paceline_template_*` functions.
//!
//! minijinja with Python's string and dict methods, and the settings and functions that Hugging
//! Face's `apply_chat_template` gives a template. A template is foreign text: its steps, its output,
//! its memory and its time are bounded.

use std::error::Error as StdError;
use std::ffi::c_char;
use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Map, Value};

use crate::border::{Text, borrow, guard};
use crate::bounded::{Limits, run};
use crate::python_json::tojson;

const NAME: &str = "chat template";
/// Steps of the virtual machine: some 50 times those of a thousand messages through a long template.
const MAX_STEPS: u64 = 5_000_000;
const MAX_OUTPUT_BYTES: usize = 64 << 20;
/// Beside some copies of the variables: a conversation is as long as its user wants.
const MAX_BYTES: usize = 256 << 20;
const VARIABLE_COPIES: usize = 16;
/// Real templates take milliseconds.
const MAX_TIME: Duration = Duration::from_secs(30);

pub struct Template(Arc<Shared>);

/// What a rendering keeps alive, also one that never ends.
struct Shared {
    environment: Environment<'static>,
    /// It met a limit of memory or time once: it is not rendered again.
    is_refused: AtomicBool,
}

/// What a template passed to `raise_exception`.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl StdError for Raised {}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// The local time, in the format of C's strftime.
fn strftime_now(format: &str) -> Result<String, Error> {
    let mut text = String::new();
    write!(text, "{}", chrono::Local::now().format(format)).map_err(|_| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now: no format: {format}"))
    })?;
    Ok(text)
}

/// The template's own message where it raised one, else what went wrong and on which line.
fn message_of(error: &Error) -> String {
    let mut cause: Option<&dyn StdError> = Some(error);
    while let Some(current) = cause {
        if let Some(raised) = current.downcast_ref::<Raised>() {
            return raised.0.clone();
        }
        cause = current.source();
    }
    error.to_string()
}

/// A writer that refuses to grow without bound.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT_BYTES {
            let message = format!("the text is longer than {MAX_OUTPUT_BYTES} bytes");
            return Err(io::Error::other(message));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `{% generation %}` marks what is learned in training; it renders as if it were not there.
fn without_generation_tags(source: &str) -> String {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let inner = start + 2;
        let body = rest[inner..].trim_start_matches(['-', '+']).trim_start();
        let word_start = rest.len() - body.len();
        let word_end = word_start
            + body.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(body.len());
        result.push_str(&rest[..word_start]);
        result.push_str(match &rest[word_start..word_end] {
            "generation" => "if true",
            "endgeneration" => "endif",
            other => other,
        });
        rest = &rest[word_end..];
    }
    result.push_str(rest);
    result
}

impl Template {
    fn parse(source: &[u8]) -> Result<Self, String> {
        let source = std::str::from_utf8(source)
            .map_err(|error| format!("is not UTF-8 at byte {}", error.valid_up_to()))?
            .to_string();
        let limits = Limits { bytes: MAX_BYTES, time: MAX_TIME };
        let environment = run(limits, move || environment_of(&source))??;
        Ok(Template(Arc::new(Shared { environment, is_refused: AtomicBool::new(false) })))
    }

    /// Of variables in both, those of `own` are taken.
    fn render(&self, own: &[u8], extra: &[u8]) -> Result<String, String> {
        const REFUSED: &str = "was refused before: it met a limit of memory or time";
        if self.0.is_refused.load(Ordering::Relaxed) {
            return Err(REFUSED.to_string());
        }
        let bytes = MAX_BYTES + VARIABLE_COPIES * (own.len() + extra.len());
        let (own, extra) = (own.to_vec(), extra.to_vec());
        let shared = Arc::clone(&self.0);
        run(Limits { bytes, time: MAX_TIME }, move || shared.render(&own, &extra)).unwrap_or_else(
            |error| {
                self.0.is_refused.store(true, Ordering::Relaxed);
                Err(error)
            },
        )
    }
}

fn environment_of(source: &str) -> Result<Environment<'static>, String> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
    environment
        .add_template_owned(NAME, without_generation_tags(source))
        .map_err(|error| message_of(&error))?;
    Ok(environment)
}

impl Shared {
    fn render(&self, own: &[u8], extra: &[u8]) -> Result<String, String> {
        let mut variables = object_from("extra variables", extra)?;
        variables.extend(object_from("variables", own)?);
        let template = self.environment.get_template(NAME).map_err(|error| error.to_string())?;
        let mut output = Bounded(Vec::new());
        template.render_captured_to(variables, &mut output).map_err(|error| message_of(&error))?;
        String::from_utf8(output.0).map_err(|error| error.to_string())
    }
}

fn object_from(what: &str, json: &[u8]) -> Result<Map<String, Value>, String> {
    serde_json::from_slice(json).map_err(|error| format!("{what}: expected a JSON object: {error}"))
}

/// # Safety
/// As the header says: `source` is borrowed, `template` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_template_new(
    source: *const c_char,
    source_size: usize,
    template: *mut *mut Template,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            let parsed = Template::parse(borrow(source.cast(), source_size))?;
            template.write(Box::into_raw(Box::new(parsed)));
            Ok(())
        })
    }
}

/// # Safety
/// `template` is null or came from `paceline_template_new` and was not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_template_free(template: *mut Template) {
    if !template.is_null() {
        drop(unsafe { Box::from_raw(template) });
    }
}

/// # Safety
/// `template` is valid, `variables` and `extra` are borrowed, `text` and `error` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_template_render(
    template: *const Template,
    variables: *const c_char,
    variables_size: usize,
    extra: *const c_char,
    extra_size: usize,
    text: *mut Text,
    error: *mut Text,
) -> i32 {
    unsafe {
        guard(error, || {
            let own = borrow(variables.cast(), variables_size);
            let rendered = (*template).render(own, borrow(extra.cast(), extra_size))?;
            text.write(rendered.into());
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, variables: &str) -> Result<String, String> {
        Template::parse(source.as_bytes())?.render(variables.as_bytes(), b"{}")
    }

    #[test]
    fn generation_tags_render_as_nothing() {
        let source =
            "a{%- generation -%} b {{ generation }}{%endgeneration%}c{% if x %}{% endif %}";
        assert_eq!(render(source, r#"{"generation": 1}"#), Ok("ab 1c".to_string()));
        assert_eq!(without_generation_tags("{%"), "{%");
        assert_eq!(without_generation_tags("{% ä"), "{% ä");
    }

    #[test]
    fn endless_work_and_output_are_refused() {
        let nested = "{% for i in range(100000) %}".repeat(3) + &"{% endfor %}".repeat(3);
        assert!(render(&nested, "{}").unwrap_err().contains("fuel"));
        let long = "{% set s = 'x' * 1000000 %}{% for i in range(1000) %}{{ s }}{% endfor %}";
        assert!(render(long, "{}").unwrap_err().contains("write"));
    }

    #[test]
    fn strings_that_double_are_refused_however_they_do_it() {
        for growth in [
            "{% set n.s = n.s ~ n.s %}",
            "{% set n.s = n.s + n.s %}",
            "{% set n.s = [n.s, n.s] | join %}",
            "{% set n.s = n.s.replace('x', 'xx') %}",
            "{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}",
            "{% set n.s = [n.s, n.s] | tojson %}",
            "{% set n.l = n.l + [n.s * 1000000] %}",
        ] {
            let source = "{% set n = namespace(s='x', l=[]) %}{% for i in range(1000) %}"
                .to_string()
                + growth
                + "{% endfor %}";
            let template = Template::parse(source.as_bytes()).unwrap();
            let error = template.render(b"{}", b"{}").unwrap_err();
            assert_eq!(error, "needs more than 256 MiB of memory", "{growth}");
            let again = template.render(b"{}", b"{}").unwrap_err();
            assert!(again.starts_with("was refused before"), "{again}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_or_rendered() {
        for (open, close) in [("{% if 1 %}", "{% endif %}"), ("{{ (", ") }}"), ("{{ [", "] }}")] {
            for depth in [10, 100_000] {
                let source = open.repeat(depth) + "1" + &close.repeat(depth);
                let nested = open.replace("{{ ", "").repeat(depth);
                let source = if open.starts_with("{{") {
                    format!("{{{{ {nested}1{} }}}}", close.replace(" }}", "").repeat(depth))
                } else {
                    source
                };
                assert_eq!(render(&source, "{}").is_ok(), depth == 10, "{open} {depth}");
            }
        }
        let macros = "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}";
        assert!(render(macros, "{}").is_err());
    }

    #[test]
    fn long_conversations_fit() {
        let message = format!(r#"{{"content": "{}"}}"#, "word ".repeat(200_000));
        let variables = format!(r#"{{"messages": [{}]}}"#, vec![message; 20].join(","));
        let source = "{% for m in messages %}{{ m.content | trim }}{% endfor %}";
        assert_eq!(render(source, &variables).unwrap().len(), 20 * 999_999);
    }

    #[test]
    fn variables_must_be_an_object() {
        assert!(render("x", "[1]").unwrap_err().starts_with("variables: expected a JSON object"));
    }
}
