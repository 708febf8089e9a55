//! An estimate of Redis's clock. Only Redis's own `TIME` decides anything; the estimate picks the day keys that a script
//! gets, and the script refuses a wrong day. A clock that jumped is in doubt.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

use crate::driver::clock_monitor::{ClockMonitor, ClockState};

const DAY_MS: i64 = 86_400_000;

/// The estimate of Redis's clock.
#[derive(Debug, Default)]
pub struct Clock {
    /// Redis's time minus local time, in milliseconds.
    offset_ms: AtomicI64,
    monitor: Mutex<ClockMonitor>,
}

impl Clock {
    /// Redis's time in milliseconds since the epoch, as estimated.
    pub fn now_ms(&self) -> i64 {
        local_ms() + self.offset_ms.load(Ordering::Relaxed)
    }

    /// Redis's current UTC day, as estimated.
    pub fn today(&self) -> Day {
        Day::of_ms(self.now_ms())
    }

    /// Takes a time that Redis read between two instants.
    pub fn observe(&self, sent: Instant, received: Instant, redis_ms: i64) {
        self.offset_ms
            .store(redis_ms - local_ms(), Ordering::Relaxed);
        let mut monitor = self.monitor.lock();
        let in_doubt = monitor.is_in_doubt();
        let state = monitor.observe(sent, received, &[redis_ms]);
        drop(monitor);
        if let (false, ClockState::Jumped { by_ms }) = (in_doubt, state) {
            warn!(
                by_ms,
                "Redis's clock jumped by {by_ms} ms: until it is steady, requests expire only holds that are also over by its \
                 old time"
            );
        }
    }

    /// What is due by this time is due beyond doubt.
    pub fn trusted_now_ms(&self) -> i64 {
        self.trusted_ms(self.now_ms())
    }

    /// Holds due before this time are over beyond doubt, at a moment when Redis's clock reads `redis_ms`.
    pub fn trusted_ms(&self, redis_ms: i64) -> i64 {
        let monitor = self.monitor.lock();
        monitor.trusted_ms(Instant::now(), redis_ms)
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

    /// Reads `yyyy-mm-dd`.
    pub fn parse_date(text: &str) -> Option<Self> {
        let is_date = text.len() == 10 && text.split('-').map(str::len).eq([4, 2, 2]);
        Self::parse(&text.replace('-', "")).filter(|_| is_date)
    }

    /// The day as `yyyy-mm-dd`; its first seven characters are the month.
    pub fn date(self) -> String {
        let day = self.to_string();
        format!("{}-{}-{}", &day[..4], &day[4..6], &day[6..])
    }

    /// The first day of the month that lies `months` later; earlier when negative.
    pub fn month(self, months: i64) -> Self {
        let date = jiff::Timestamp::from_millisecond(self.start_ms()).unwrap_or_default();
        let first = jiff::tz::Offset::UTC
            .to_datetime(date)
            .date()
            .first_of_month();
        let first = first.saturating_add(jiff::Span::new().months(months));
        Self::parse_date(&first.to_string()).unwrap_or(self)
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

    /// The days of the times from `low_ms` to `high_ms`, both included; none where they are the wrong way round.
    pub fn between(low_ms: i64, high_ms: i64) -> impl DoubleEndedIterator<Item = Self> {
        let [first, last] = [low_ms, high_ms].map(|ms| Self::of_ms(ms).days_since_epoch);
        let last = if low_ms <= high_ms { last } else { first - 1 };
        (first..=last).map(|days_since_epoch| Self { days_since_epoch })
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
    fn a_day_is_written_and_read_as_in_the_keys() {
        for (ms, text) in [
            (0, "19700101"),
            (1_709_164_800_000, "20240229"),
            (1_709_251_199_999, "20240229"),
            (1_709_251_200_000, "20240301"),
            (1_798_675_200_000, "20261231"),
        ] {
            assert_eq!(Day::of_ms(ms).to_string(), text);
            assert_eq!(Day::parse(text), Some(Day::of_ms(ms)));
        }
        let day = Day::of_ms(1_709_164_800_000);
        assert_eq!(day.date(), "2024-02-29");
        assert_eq!(Day::parse_date("2024-02-29"), Some(day));
        assert_eq!(
            [-14, 0, 1, 11].map(|months| day.month(months).date()),
            ["2022-12-01", "2024-02-01", "2024-03-01", "2025-01-01"]
        );
        for text in [
            "20240229",
            "2024-2-29",
            "2024-02-30",
            "24-02-29",
            "202-402-29",
            "2024-02-29x",
        ] {
            assert_eq!(Day::parse_date(text), None, "{text}");
        }
        let before = Day::of_ms(1_709_251_200_000).plus(-1);
        assert_eq!(before.to_string(), "20240229");
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
