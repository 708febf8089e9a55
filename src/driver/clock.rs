//! What this process believes Redis's clock to say. Only Redis's own `TIME` decides anything; this estimate picks the day
//! keys that a script is given, and the script says so when it was wrong. And it doubts a clock that jumped.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use tracing::warn;

use crate::driver::clock_monitor::{Course, Verdict};

const DAY_MS: i64 = 86_400_000;

/// Redis's clock, so far as it was told.
#[derive(Debug, Default)]
pub struct Clock {
    /// To the local clock, in milliseconds.
    offset_ms: AtomicI64,
    course: Mutex<Course>,
}

impl Clock {
    /// Redis's time in milliseconds since the epoch, as far as known.
    pub fn now_ms(&self) -> i64 {
        local_ms() + self.offset_ms.load(Ordering::Relaxed)
    }

    /// Redis's present UTC day, as far as known.
    pub fn today(&self) -> Day {
        Day::of_ms(self.now_ms())
    }

    /// Takes over a time that Redis told between two instants.
    pub fn observe(&self, sent: Instant, received: Instant, redis_ms: i64) {
        self.offset_ms
            .store(redis_ms - local_ms(), Ordering::Relaxed);
        let mut course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        let in_doubt = course.is_in_doubt();
        let verdict = course.observe(sent, received, &[redis_ms]);
        drop(course);
        if let (false, Verdict::Jumped { by_ms }) = (in_doubt, verdict) {
            warn!(
                by_ms,
                "Redis's clock jumped by {by_ms} ms: until it is steady, requests end no hold that is not over by its old \
                 course too"
            );
        }
    }

    /// Until when holds are over beyond doubt, at a moment when Redis tells `redis_ms`.
    pub fn believed_ms(&self, redis_ms: i64) -> i64 {
        let course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        course.believed_ms(Instant::now(), redis_ms)
    }
}

fn local_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |elapsed| elapsed.as_millis() as i64)
}

/// A UTC day; displayed as `yyyymmdd`, the way keys carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day {
    days_since_epoch: i64,
}

impl Day {
    /// The UTC day of a time in milliseconds since the epoch.
    pub fn of_ms(ms: i64) -> Self {
        Self {
            days_since_epoch: ms.div_euclid(DAY_MS),
        }
    }

    /// Reads `yyyymmdd`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
        let date = jiff::civil::Date::strptime("%Y%m%d", text)
            .ok()
            .filter(|_| digits)?;
        let start = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
        Some(Self::of_ms(start.timestamp().as_millisecond()))
    }

    /// The first millisecond of the day.
    pub fn start_ms(self) -> i64 {
        self.days_since_epoch * DAY_MS
    }

    /// The day `days` later; earlier when negative.
    pub fn plus(self, days: i64) -> Self {
        Self {
            days_since_epoch: self.days_since_epoch + days,
        }
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = jiff::Timestamp::from_millisecond(self.start_ms()).unwrap_or_default();
        let date = jiff::tz::Offset::UTC.to_datetime(start);
        write!(f, "{:04}{:02}{:02}", date.year(), date.month(), date.day())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_as_in_the_keys() {
        assert_eq!(Day::of_ms(0).to_string(), "19700101");
        assert_eq!(Day::of_ms(1_709_164_800_000).to_string(), "20240229");
        assert_eq!(Day::of_ms(1_709_251_199_999).to_string(), "20240229");
        assert_eq!(Day::of_ms(1_709_251_200_000).to_string(), "20240301");
        assert_eq!(
            Day::of_ms(1_709_251_200_000).plus(-1).to_string(),
            "20240229"
        );
    }

    #[test]
    fn a_day_is_read_as_it_is_written() {
        for text in ["19700101", "20240229", "20261231"] {
            assert_eq!(
                Day::parse(text).map(|day| day.to_string()).as_deref(),
                Some(text)
            );
        }
        for text in [
            "",
            "2024022",
            "20240230",
            "2024-2-9",
            "202402299",
            "+2024022",
        ] {
            assert_eq!(Day::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_observed_time_moves_the_clock() {
        let clock = Clock::default();
        clock.observe(Instant::now(), Instant::now(), 1_000_000);
        assert!((1_000_000..1_005_000).contains(&clock.now_ms()));
        assert_eq!(clock.today().to_string(), "19700101");
    }
}
