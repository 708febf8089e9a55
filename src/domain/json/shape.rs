//! How long a text would take to read, found in one pass over its bytes.

use super::{DEPTH_MAX, JsonError};

/// A text up to this length, in bytes, is quick to read, whatever it holds.
const SHORT: usize = 16 * 1024;
/// A reader that keeps the literals of numbers passes over a byte once for each array and object around it: on average at most this
/// often, besides [`PASSED_BYTES`].
const PASSES_MAX: usize = 4;
/// Passes, in bytes, that any text may take.
const PASSED_BYTES: usize = 1 << 20;

/// Refuses a text that would take long to read. Whether it is JSON is for the reader to find out.
///
/// # Errors
/// [`JsonError::TooMany`], [`JsonError::TooDeep`] or [`JsonError::TooDeepForLength`].
pub(super) fn check_shape(text: &[u8], values_max: usize) -> Result<(), JsonError> {
    if text.len() <= SHORT {
        return Ok(());
    }
    let (mut in_string, mut is_escaped) = (false, false);
    let (mut depth, mut values, mut passed) = (0_usize, 1, 0);
    let mut too_deep = None;
    for (byte, symbol) in text.iter().enumerate() {
        match symbol {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' if depth >= DEPTH_MAX => {
                too_deep.get_or_insert(byte);
                depth += 1;
            }
            b'[' | b'{' => {
                values += 1;
                depth += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += usize::from(depth <= DEPTH_MAX),
            _ => {}
        }
        passed += depth.min(DEPTH_MAX);
    }
    if values > values_max {
        return Err(JsonError::TooMany { values_max });
    }
    match too_deep {
        // What is not closed is no JSON, which the reader finds in one pass.
        Some(byte) if depth == 0 => Err(JsonError::TooDeep {
            depth_max: DEPTH_MAX,
            path: format!("byte {byte}"),
        }),
        _ if passed > PASSES_MAX * text.len() + PASSED_BYTES => Err(JsonError::TooDeepForLength),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_that_would_take_long_to_read_is_refused() {
        let inside =
            |levels, inner: &str| format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels));
        let (string, deep) = ("[".repeat(SHORT), inside(65, "0"));
        for (text, message) in [
            (format!("[{}0]", "[],".repeat(9_999)), None),
            (
                format!("[{}0", "[],".repeat(10_000)),
                Some("more than 20000 values"),
            ),
            (
                format!("[{}{{}}]", "0,".repeat(20_000)),
                Some("more than 20000 values"),
            ),
            (format!("[\"{string}\",\"\\\"{string}\"]"), None),
            (
                inside(100_000, ""),
                Some("nested deeper than 64 levels at `byte 64`"),
            ),
            (
                format!("[\"{string}\",{deep}]"),
                Some("nested deeper than 64 levels at"),
            ),
            (inside(60, &" ".repeat(SHORT)), None),
            (
                inside(60, &" ".repeat(SHORT * 4)),
                Some("nested too deep for its length"),
            ),
            (inside(3, &" ".repeat(SHORT * 64)), None),
        ] {
            let refused = check_shape(text.as_bytes(), 20_000).map_err(|error| error.to_string());
            match message {
                None => assert_eq!(refused, Ok(())),
                Some(message) => {
                    let refused = refused.expect_err(message);
                    assert!(refused.starts_with(message), "{refused}");
                }
            }
        }
    }
}
