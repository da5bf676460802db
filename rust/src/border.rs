//! What all functions of the C border share: borrowed inputs, owned outputs, errors and panics.
//! The layouts are those of `include/paceline_text.h`.

use std::any::Any;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

pub const OK: i32 = 0;
pub const INVALID: i32 = 1;
pub const INTERNAL: i32 = 2;

/// An owned byte string handed to the caller; freed by `paceline_text_free`.
#[repr(C)]
pub struct Text {
    data: *mut c_char,
    size: usize,
}

/// Owned token ids handed to the caller; freed by `paceline_ids_free`.
#[repr(C)]
pub struct Ids {
    data: *mut u32,
    size: usize,
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        let boxed = bytes.into_boxed_slice();
        let size = boxed.len();
        Text { data: Box::into_raw(boxed).cast(), size }
    }
}

impl From<Vec<u32>> for Ids {
    fn from(ids: Vec<u32>) -> Self {
        let boxed = ids.into_boxed_slice();
        let size = boxed.len();
        Ids { data: Box::into_raw(boxed).cast(), size }
    }
}

/// Borrows `size` elements for the call; `data` may be null where `size` is 0.
///
/// # Safety
/// `data` points to `size` initialized elements that outlive `'a` and are not written meanwhile.
pub unsafe fn borrow<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        return &[];
    }
    unsafe { std::slice::from_raw_parts(data, size) }
}

/// Borrows bytes as text; what is no UTF-8 becomes U+FFFD.
///
/// # Safety
/// As for `borrow`.
pub unsafe fn borrow_text<'a>(data: *const c_char, size: usize) -> std::borrow::Cow<'a, str> {
    String::from_utf8_lossy(unsafe { borrow(data.cast::<u8>(), size) })
}

/// Runs `body`; its error, or its panic, becomes a status and one line in `*error`.
///
/// # Safety
/// `error` is null or points to writable memory for one `Text`.
pub unsafe fn guard<F>(error: *mut Text, body: F) -> i32
where
    F: FnOnce() -> Result<(), String>,
{
    silence_panics();
    let (status, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return OK,
        Ok(Err(message)) => (INVALID, message),
        Err(panic) => (INTERNAL, panic_message(panic.as_ref())),
    };
    if !error.is_null() {
        unsafe { error.write(one_line(&message).into()) };
    }
    status
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}", text.unwrap_or("unknown panic"))
}

/// The default hook prints a panic with its backtrace; here it is an error like any other.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

/// Line breaks become spaces; a long message is cut.
fn one_line(message: &str) -> String {
    const LIMIT: usize = 500;
    let mut line: String = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > LIMIT {
        let end = (0..=LIMIT).rev().find(|&end| line.is_char_boundary(end)).unwrap_or(0);
        line.truncate(end);
        line.push_str("...");
    }
    line
}

/// # Safety
/// `text` came from this crate and was not freed before, or is zeroed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_text_free(text: Text) {
    if !text.data.is_null() {
        let slice = std::ptr::slice_from_raw_parts_mut(text.data.cast::<u8>(), text.size);
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// # Safety
/// `ids` came from this crate and was not freed before, or is zeroed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_ids_free(ids: Ids) {
    if !ids.data.is_null() {
        let slice = std::ptr::slice_from_raw_parts_mut(ids.data, ids.size);
        drop(unsafe { Box::from_raw(slice) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(body: impl FnOnce() -> Result<(), String>) -> (i32, String) {
        let mut error = Text { data: std::ptr::null_mut(), size: 0 };
        let status = unsafe { guard(&mut error, body) };
        let message = unsafe { borrow_text(error.data, error.size) }.into_owned();
        unsafe { paceline_text_free(error) };
        (status, message)
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let values: Vec<u32> = Vec::new();
        let (status, message) = run(|| Err(values[3].to_string()));
        assert_eq!(status, INTERNAL);
        assert!(message.starts_with("internal error: index out of bounds"), "{message}");
    }

    #[test]
    fn an_error_is_one_bounded_line() {
        let (status, message) = run(|| Err("one\n  two".to_string()));
        assert_eq!((status, message.as_str()), (INVALID, "one two"));
        let (_, message) = run(|| Err("ä".repeat(1000)));
        assert!(message.len() <= 503 && message.ends_with("..."));
    }

    #[test]
    fn success_leaves_the_error_alone() {
        assert_eq!(run(|| Ok(())), (OK, String::new()));
    }
}
