//! Times on the command line: a moment, or a distance from now.

use jiff::{SignedDuration, Timestamp};

/// Reads `2026-01-31T12:00:00Z`, or `15m`, `2h`, `7d` ago, and returns the time as the wire has it.
pub(super) fn past(text: &str) -> Result<String, String> {
    moment(text, -1).map(|moment| moment.to_string())
}

/// Reads a time, or `15m`, `2h`, `7d` from now, and returns the time as the wire has it.
pub(super) fn future(text: &str) -> Result<String, String> {
    moment(text, 1).map(|moment| moment.to_string())
}

fn moment(text: &str, direction: i64) -> Result<Timestamp, String> {
    let wrong = || {
        format!(
            "`{text}` is neither a time such as 2026-01-31T12:00:00Z nor one such as 15m, 2h or 7d"
        )
    };
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let (count, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let count: u32 = count.parse().map_err(|_| wrong())?;
    let distance = SignedDuration::from_secs(direction * i64::from(count) * seconds);
    let now = Timestamp::now();
    now.checked_add(distance).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_moment_or_a_distance() {
        assert_eq!(
            past("2026-01-31T12:00:00Z").as_deref(),
            Ok("2026-01-31T12:00:00Z")
        );
        let hour = Timestamp::now().as_second() - moment("1h", -1).expect("an hour").as_second();
        assert!((3_600..3_605).contains(&hour), "{hour}");
        assert!(moment("90d", 1).expect("a quarter") > Timestamp::now());
        for wrong in ["", "h", "1y", "-1h", "yesterday", "9999999999d", "1é"] {
            assert!(past(wrong).is_err(), "{wrong}");
        }
    }
}
