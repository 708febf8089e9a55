//! How long something lasts.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde_json::json;

use crate::domain::fields::plain_field;

/// Ten years, of which three are leap years.
const LONGEST_MS: i64 = 3_653 * 86_400_000;

/// A positive ISO 8601 duration of at most ten years, such as `P2D` or `PT36H`. Days have 24 hours; months and years are those of the
/// calendar in UTC.
#[derive(Debug, Clone, Copy)]
pub struct Duration(Span);

impl Duration {
    /// Reads it. The library also reads forms that are not ISO 8601, such as `2 days`.
    pub fn parse(text: &str) -> Option<Self> {
        let span: Span = text.parse().ok().filter(|_| text.starts_with('P'))?;
        let duration = span.is_positive().then_some(Self(span))?;
        let length_ms = duration.end_ms(0)?;
        (length_ms <= LONGEST_MS).then_some(duration)
    }

    /// When it ends if it begins at a time; both in milliseconds since the epoch. `None` beyond the year 9999.
    pub fn end_ms(self, from_ms: i64) -> Option<i64> {
        let from = Timestamp::from_millisecond(from_ms).ok()?;
        let end = from.to_zoned(TimeZone::UTC).checked_add(self.0).ok()?;
        Some(end.timestamp().as_millisecond())
    }
}

/// By length.
impl PartialEq for Duration {
    fn eq(&self, other: &Self) -> bool {
        self.0.fieldwise() == other.0.fieldwise()
    }
}

impl Eq for Duration {}

plain_field!(
    Duration,
    (),
    |(), _| json!({"type": "string", "format": "duration", "example": "P2D"}),
    |value, ()| {
        value.parsed(Duration::parse, || {
            "a positive ISO 8601 duration of at most ten years, such as P2D or PT36H".to_owned()
        })
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rows;

    #[test]
    fn a_duration_ends_by_the_calendar_of_utc() {
        // 2026-01-31T00:00:00Z.
        let from_ms = 1_769_817_600_000;
        for (text, end_ms) in rows(
            "PT1S => 1769817601000
            PT36H => 1769947200000
            P2D => 1769990400000
            P1DT12H => 1769947200000
            P1M => 1772236800000",
        ) {
            let end = Duration::parse(text).and_then(|duration| duration.end_ms(from_ms));
            assert_eq!(
                end.map(|ms| ms.to_string()).as_deref(),
                Some(end_ms),
                "{text}"
            );
        }
        for text in [
            "P11Y", "P9000Y", "", "P", "2 days", "-P1D", "PT0S", "1D", "P1D ", "tomorrow",
        ] {
            assert_eq!(Duration::parse(text), None, "{text}");
        }
        let long = Duration::parse("P10Y").expect("a duration");
        assert_eq!(long.end_ms(253_402_207_199_999), None);
    }
}
