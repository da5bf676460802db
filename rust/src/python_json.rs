//! The `tojson` filter as chat templates know it: Python's `json.dumps(value, ensure_ascii=False)`.
//!
//! Not minijinja's own filter, which escapes for HTML and writes no space after `,` and `:`; a
//! model that calls tools was trained on Python's spelling.

use std::io;

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::Formatter;

/// As `json.dumps`: one line with ", " and ": ", or indented by `indent` spaces.
struct PythonFormatter {
    indent: Option<usize>,
    depth: usize,
    is_empty: bool,
}

impl PythonFormatter {
    fn open<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.is_empty {
            self.new_line(writer)?;
        }
        self.is_empty = false;
        writer.write_all(bracket)
    }

    fn separate<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.is_empty = false;
        if !first {
            writer.write_all(if self.indent.is_some() { b"," } else { b", " })?;
        }
        self.new_line(writer)
    }

    fn new_line<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        let Some(indent) = self.indent else { return Ok(()) };
        write!(writer, "\n{:width$}", "", width = indent * self.depth)
    }
}

impl Formatter for PythonFormatter {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.separate(w, first)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.separate(w, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// `value | tojson`, `value | tojson(indent=4)`. Of json.dumps's other options, those that say what
/// is the default here anyway (`ensure_ascii=False`, `sort_keys=False`) are taken.
pub fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidOperation, message);
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    for option in ["ensure_ascii", "sort_keys"] {
        if options.get::<Option<bool>>(option)? == Some(true) {
            return Err(invalid(format!("tojson: {option}=true is not supported")));
        }
    }
    options.assert_all_used()?;
    let indent = match indent.filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => match indent.as_usize() {
            Some(width) if width <= 16 => Some(width),
            _ => return Err(invalid(format!("tojson: indent is {indent}, expected 0 to 16"))),
        },
    };
    let mut json = Vec::new();
    let formatter = PythonFormatter { indent, depth: 0, is_empty: true };
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, formatter);
    value.serialize(&mut serializer).map_err(|error| invalid(format!("tojson: {error}")))?;
    let json = String::from_utf8(json).map_err(|error| invalid(format!("tojson: {error}")))?;
    Ok(Value::from_safe_string(json))
}
