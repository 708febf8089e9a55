//! Times on the wire and in records: milliseconds since 1970, written in RFC 3339.

use jiff::Timestamp;

/// `2026-07-04T12:00:00.123Z`: always UTC, always with milliseconds, so that the order of texts is the order of times.
pub fn iso_ms(ms: i64) -> String {
    let timestamp = Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    });
    timestamp.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// Reads an RFC 3339 time with any offset; fractions of a millisecond are dropped.
pub fn parse_iso_ms(text: &str) -> Option<i64> {
    // jiff is more liberal: a date alone, a blank for the `T`, a time zone in brackets.
    let bytes = text.as_bytes();
    let shaped = bytes.len() >= 20
        && bytes[10].eq_ignore_ascii_case(&b'T')
        && bytes
            .iter()
            .all(|byte| b"0123456789-+:.TtZz".contains(byte));
    if !shaped {
        return None;
    }
    text.parse::<Timestamp>()
        .ok()
        .map(|timestamp| timestamp.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_milliseconds_in_utc() {
        assert_eq!(iso_ms(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_ms(1_783_166_400_120), "2026-07-04T12:00:00.120Z");
        assert_eq!(iso_ms(i64::MAX).len(), 24);
    }

    #[test]
    fn any_offset_is_read_and_anything_else_refused() {
        for text in [
            "2026-07-04T12:00:00.120Z",
            "2026-07-04t12:00:00.1209z",
            "2026-07-04T14:00:00.12+02:00",
        ] {
            assert_eq!(parse_iso_ms(text), Some(1_783_166_400_120), "{text}");
        }
        for text in [
            "",
            "2026-07-04",
            "2026-07-04 12:00:00Z",
            "2026-07-04T12:00:00",
            "2026-13-04T12:00:00Z",
            "1783166400120",
            "2026-07-04T12:00:00Z[UTC]",
        ] {
            assert_eq!(parse_iso_ms(text), None, "{text}");
        }
    }
}
