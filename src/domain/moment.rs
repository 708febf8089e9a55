//! Points in time, to the millisecond.

use std::fmt;

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::record::Stored;

/// The first moment of the year 1.
const FIRST_MS: i64 = -62_135_596_800_000;
/// The last moment that has a date everywhere on earth: 9999-12-30T21:59:59.999Z.
const LAST_MS: i64 = 253_402_207_199_999;

/// A point in time: milliseconds since the epoch, UTC, from the year 1 to almost the end of 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(i64);

impl Moment {
    /// `None` outside that span.
    pub fn from_ms(ms: i64) -> Option<Self> {
        (FIRST_MS..=LAST_MS).contains(&ms).then_some(Self(ms))
    }

    /// Reads RFC 3339: date, time and `Z` or a numeric offset. Fractions of a millisecond are cut off.
    pub fn parse(text: &str) -> Option<Self> {
        // The library also reads forms that the wire does not have, such as `2026-07-04 12:00Z[UTC]`.
        let bytes = text.as_bytes();
        let plain = bytes.len() >= 20
            && bytes[4] == b'-'
            && matches!(bytes[10], b'T' | b't')
            && bytes[16] == b':'
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b"-:.+TtZz".contains(&byte));
        if !plain {
            return None;
        }
        let timestamp: Timestamp = text.parse().ok()?;
        let ms = timestamp.as_nanosecond().div_euclid(1_000_000);
        i64::try_from(ms).ok().and_then(Self::from_ms)
    }

    /// Reads the date of an HTTP header: `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn parse_http_date(text: &str) -> Option<Self> {
        let timestamp = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        Self::from_ms(timestamp.as_millisecond())
    }

    /// Milliseconds since the epoch.
    pub fn as_ms(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Moment {
    /// RFC 3339 in UTC with milliseconds, such as `2026-07-04T12:00:00.123Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{timestamp:.3}")
    }
}

impl serde::Serialize for Moment {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Milliseconds since the epoch in a field whose name says so, else RFC 3339.
impl Stored for Moment {
    fn from_field(field: &str, text: &str) -> Option<Self> {
        match field.ends_with("_ms") {
            true => Self::from_ms(text.parse().ok()?),
            false => Self::parse(text),
        }
    }

    fn to_field(&self, field: &str) -> Option<String> {
        Some(match field.ends_with("_ms") {
            true => self.as_ms().to_string(),
            false => self.to_string(),
        })
    }
}

/// A span of time, both ends included, each optional; milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Not before.
    pub from_ms: Option<i64>,
    /// Not after.
    pub to_ms: Option<i64>,
}

impl Window {
    /// Whether no end is given.
    pub fn is_open(self) -> bool {
        self == Self::default()
    }

    /// Whether no time lies in it: it ends before it begins.
    pub fn is_empty(self) -> bool {
        let ends = self.from_ms.zip(self.to_ms);
        ends.is_some_and(|(from, to)| from > to)
    }

    /// Whether a time lies in it.
    pub fn contains(self, ms: i64) -> bool {
        self.from_ms.is_none_or(|from| from <= ms) && self.to_ms.is_none_or(|to| ms <= to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_and_fractions_of_milliseconds_cut() {
        for (text, written) in [
            ("2026-07-04T12:00:00Z", "2026-07-04T12:00:00.000Z"),
            ("2026-07-04t12:00:00z", "2026-07-04T12:00:00.000Z"),
            (
                "2026-07-04T14:00:00.1239999+02:00",
                "2026-07-04T12:00:00.123Z",
            ),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
            ("9999-12-30T21:59:59.999Z", "9999-12-30T21:59:59.999Z"),
        ] {
            assert_eq!(Moment::parse(text).expect(text).to_string(), written);
        }
        assert_eq!(Moment::parse("1970-01-01T00:00:01Z").unwrap().as_ms(), 1000);
    }

    #[test]
    fn other_texts_are_not_moments() {
        for text in [
            "",
            "1790000000000",
            "2026-07-04",
            "2026-07-04T12:00:00",
            "2026-07-04 12:00:00Z",
            "2026-07-04T12:00Z",
            "2026-07-04T12:00:00Z[UTC]",
            "2026-13-04T12:00:00Z",
            "2026-02-30T12:00:00Z",
            "2026-07-04T25:00:00Z",
            "20260704T120000Z",
            "+002026-07-04T12:00:00Z",
            "-002026-07-04T12:00:00Z",
            "2026-07-04T12:00:00+99:00",
            "2026-07-04T12:00:00Z\n",
            "２０２６-07-04T12:00:00Z",
        ] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_name_of_a_field_determines_its_time_format() {
        let at = Moment::from_ms(5).expect("in range");
        for (field, text) in [
            ("created_at_ms", "5"),
            ("period_end", "1970-01-01T00:00:00.005Z"),
        ] {
            assert_eq!(at.to_field(field).as_deref(), Some(text));
            assert_eq!(Moment::from_field(field, text), Some(at));
        }
        assert_eq!(Moment::from_field("period_end", "5"), None);
    }
}
