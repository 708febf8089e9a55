//! Times on the command line: a moment, or a distance from now.

use jiff::{Span, SpanRelativeTo, Timestamp};
use serde_json::Value;

/// Reads `2026-01-31T12:00:00Z`, or `15m`, `2h`, `7d` ago, and returns the time as the wire has it.
pub(super) fn past(text: &str) -> Result<Value, String> {
    moment(text, -1).map(|moment| moment.to_string().into())
}

/// Reads a time, or `15m`, `2h`, `7d` from now, and returns the time as the wire has it.
pub(super) fn future(text: &str) -> Result<Value, String> {
    moment(text, 1).map(|moment| moment.to_string().into())
}

fn moment(text: &str, direction: i32) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let moment = text.parse().and_then(|distance: Span| {
        let from_now = distance.to_duration(SpanRelativeTo::days_are_24_hours())?;
        let moment = Timestamp::now().checked_add(from_now * direction)?;
        Ok((moment, distance.is_negative()))
    });
    match moment {
        Ok((moment, false)) => Ok(moment),
        _ => Err(format!(
            "`{text}` is neither a time such as 2026-01-31T12:00:00Z nor one such as 15m, 2h or 7d"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_relative() {
        let noon = "2026-01-31T12:00:00Z";
        assert_eq!(past(noon), Ok(noon.into()));
        let hour = Timestamp::now().as_second() - moment("1h", -1).expect("an hour").as_second();
        assert!((3_600..3_605).contains(&hour), "{hour}");
        assert!(moment("90d", 1).expect("a quarter") > Timestamp::now());
        for wrong in ["", "h", "1y", "-1h", "yesterday", "9999999999d", "1é"] {
            assert!(past(wrong).is_err(), "{wrong}");
        }
    }
}
