//! Which period a time is in, and how many begin between two times.

use std::ops::RangeInclusive;

use jiff::civil::date;
use jiff::{Timestamp, Zoned};

use super::{Every, Zone};
use crate::domain::moment::Moment;

const DAY_MS: i64 = 86_400_000;
/// The times that have a period: the years 1 to 8999. The library reaches further by more than the longest period.
const TIMES_MS: RangeInclusive<i64> = -62_135_596_800_000..=221_845_391_999_999;

/// Start and end of a period, in milliseconds since the epoch. The end is the start of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The first time in it.
    pub start_ms: i64,
    /// The first time after it.
    pub end_ms: i64,
}

/// All starts of periods. A time outside the years 1 to 8999 counts as the first or last one within them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    every: Every,
    anchor: Zoned,
    /// Whether all periods are equally long.
    is_fixed: bool,
}

impl Schedule {
    /// What requests may give as anchor: the years 1970 to 2100, in milliseconds since the epoch.
    pub const ANCHORS_MS: RangeInclusive<i64> = 0..=4_133_980_799_999;

    /// Why an anchor is refused.
    pub const ANCHOR_WANTED: &str = "must be in the years 1970 to 2100";

    /// Whether a request may give this anchor, or none.
    pub fn takes_anchor(anchor: Option<Moment>) -> bool {
        anchor.is_none_or(|anchor| Self::ANCHORS_MS.contains(&anchor.as_ms()))
    }

    /// A period begins at the anchor. Without one, days begin at midnight, weeks on Monday, months on the first, years in January.
    pub fn new(every: Every, zone: &Zone, anchor: Option<Moment>) -> Self {
        let time_zone = zone.time_zone().clone();
        let anchor = match anchor {
            Some(anchor) => {
                Timestamp::from_millisecond(anchor.as_ms()).map(|at| at.to_zoned(time_zone))
            }
            // A Monday.
            None => date(2024, 1, 1).to_zoned(time_zone),
        };
        Self {
            every,
            anchor: anchor.expect("the library has all moments, and local times of 2024"),
            is_fixed: every.is_absolute() || every.is_regular() && zone.is_utc(),
        }
    }

    /// The anchor, in milliseconds since the epoch.
    pub fn anchor_ms(&self) -> i64 {
        self.anchor.timestamp().as_millisecond()
    }

    /// The length of every period, if all are equally long: those of minutes and hours, and in UTC those of days and weeks. Then
    /// period k starts exactly k lengths after the anchor.
    pub fn fixed_length_ms(&self) -> Option<i64> {
        self.is_fixed.then_some(self.every.average_ms())
    }

    /// The period that contains a time.
    pub fn bounds(&self, at_ms: i64) -> Bounds {
        self.find(at_ms).1
    }

    /// How many periods start after `from_ms`, and not after `to_ms`. An empty period does not count.
    pub fn boundaries(&self, from_ms: i64, to_ms: i64) -> u64 {
        let ((from, first), (to, last)) = (self.find(from_ms), self.find(to_ms));
        let passed = match self.every.is_one_day() {
            // Only a day can be empty, where a zone skipped it: Samoa had no 2011-12-30. Such a day takes no time.
            true => (last.start_ms - first.start_ms + DAY_MS / 2).div_euclid(DAY_MS),
            false => to - from,
        };
        u64::try_from(passed).unwrap_or(0)
    }

    /// The period that contains a time, and its number.
    fn find(&self, at_ms: i64) -> (i64, Bounds) {
        let at_ms = at_ms.clamp(*TIMES_MS.start(), *TIMES_MS.end());
        // Off by two at most: months differ by days from the average, and offsets by a good day from each other.
        let mut k = (at_ms - self.anchor_ms()).div_euclid(self.every.average_ms());
        let mut start_ms = self.start_ms(k);
        while start_ms > at_ms {
            k -= 1;
            start_ms = self.start_ms(k);
        }
        let mut end_ms = self.start_ms(k + 1);
        while end_ms <= at_ms {
            k += 1;
            (start_ms, end_ms) = (end_ms, self.start_ms(k + 1));
        }
        (k, Bounds { start_ms, end_ms })
    }

    fn start_ms(&self, k: i64) -> i64 {
        let start = self.anchor.saturating_add(self.every.times(k));
        start.timestamp().as_millisecond()
    }
}
