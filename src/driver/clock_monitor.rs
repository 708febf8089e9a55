//! The clock monitor: compares Redis's clock with the monotonic clock of this process and detects jumps.
//!
//! After a jump of more than [`JUMP_MAX`] the clock is in doubt until it has been back at its old time for
//! [`RETURNED_FOR`], or has kept its new time for [`KEPT_FOR`]. By then all but the longest holds from before the jump are
//! over by either time.

use std::time::Duration;

use tokio::time::Instant;

/// The largest deviation that is no jump.
pub const JUMP_MAX: Duration = Duration::from_secs(5);

/// How long a clock that returned to its old time must keep it.
pub const RETURNED_FOR: Duration = Duration::from_secs(60);

/// How long a clock must keep a new time.
pub const KEPT_FOR: Duration = Duration::from_secs(600);

/// The state of the clock after an observation.
#[derive(Debug, PartialEq, Eq)]
pub enum ClockState {
    /// The clock is trusted.
    Steady,
    /// It jumped since the last observation.
    Jumped {
        /// By how many milliseconds; negative when it jumped back.
        by_ms: i64,
    },
    /// It is in doubt since an earlier jump.
    InDoubt,
}

/// A time of Redis's clock and when it was read; projected by the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    ms: i64,
}

impl Reading {
    /// The time that this reading predicts for `instant`.
    fn at(self, instant: Instant) -> i64 {
        match instant.checked_duration_since(self.at) {
            Some(later) => self.ms + later.as_millis() as i64,
            None => self.ms - (self.at - instant).as_millis() as i64,
        }
    }

    /// By how much a time read between two instants deviates from the prediction; 0 when it may not deviate.
    fn deviation(self, sent: Instant, received: Instant, ms: i64) -> i64 {
        ms - ms.clamp(self.at(sent), self.at(received))
    }
}

#[derive(Debug, Clone, Copy)]
struct Alarm {
    /// The clock as it runs since the jump.
    candidate: Reading,
    /// When the new time was first observed.
    since: Instant,
}

/// Watches Redis's clock.
#[derive(Debug, Default)]
pub struct ClockMonitor {
    /// The last trusted reading.
    trusted: Option<Reading>,
    alarm: Option<Alarm>,
}

impl ClockMonitor {
    /// Whether the clock is in doubt after a jump.
    pub fn is_in_doubt(&self) -> bool {
        self.alarm.is_some()
    }

    /// When the jump was seen that puts the clock in doubt.
    pub fn jumped_at(&self) -> Option<Instant> {
        Some(self.alarm?.since)
    }

    /// The latest time to trust at an instant when Redis's clock reads `redis_ms`: after a jump ahead, the time without the
    /// jump.
    pub fn trusted_ms(&self, at: Instant, redis_ms: i64) -> i64 {
        match (&self.alarm, self.trusted) {
            (Some(_), Some(trusted)) => redis_ms.min(trusted.at(at)),
            _ => redis_ms,
        }
    }

    /// The expected time of Redis's clock at an instant; `None` while it is in doubt, or was never read.
    pub fn expected_ms(&self, at: Instant) -> Option<i64> {
        let trusted = self.trusted.filter(|_| self.alarm.is_none());
        trusted.map(|trusted| trusted.at(at))
    }

    /// Takes the times that the nodes read between two instants, in milliseconds.
    pub fn observe(&mut self, sent: Instant, received: Instant, times: &[i64]) -> ClockState {
        let Some(first) = times.first() else {
            return ClockState::InDoubt;
        };
        let seen = Reading {
            at: sent + (received - sent) / 2,
            ms: *first,
        };
        // The largest deviation of any node.
        let deviation = |reading: Reading| {
            let deviations = times
                .iter()
                .map(|ms| reading.deviation(sent, received, *ms));
            deviations
                .max_by_key(|deviation| deviation.abs())
                .unwrap_or(0)
        };
        let limit = JUMP_MAX.as_millis() as i64;
        let trusted = *self.trusted.get_or_insert(seen);
        match self.alarm {
            None if deviation(trusted).abs() <= limit => {
                self.trusted = Some(seen);
                ClockState::Steady
            }
            Some(alarm) if deviation(alarm.candidate).abs() <= limit => {
                let returned = deviation(trusted).abs() <= limit;
                let wait = if returned { RETURNED_FOR } else { KEPT_FOR };
                if received - alarm.since >= wait {
                    self.trusted = Some(seen);
                    self.alarm = None;
                    return ClockState::Steady;
                }
                self.alarm = Some(Alarm {
                    candidate: seen,
                    ..alarm
                });
                ClockState::InDoubt
            }
            alarm => {
                let by_ms = deviation(alarm.map_or(trusted, |alarm| alarm.candidate));
                self.alarm = Some(Alarm {
                    candidate: seen,
                    since: received,
                });
                ClockState::Jumped { by_ms }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that is read every second; each reading takes 10 ms.
    struct Readings {
        monitor: ClockMonitor,
        start: Instant,
        elapsed: Duration,
    }

    impl Readings {
        fn new() -> Self {
            Self {
                monitor: ClockMonitor::default(),
                start: Instant::now(),
                elapsed: Duration::ZERO,
            }
        }

        fn read(&mut self, offsets_ms: &[i64]) -> ClockState {
            self.elapsed += Duration::from_secs(1);
            let sent = self.start + self.elapsed;
            let ms = self.elapsed.as_millis() as i64 + 5;
            let times = offsets_ms.iter().map(|offset| 1_000_000 + ms + offset);
            let (times, received) = (times.collect::<Vec<_>>(), sent + Duration::from_millis(10));
            self.monitor.observe(sent, received, &times)
        }

        /// How many more readings at this offset it takes until the clock is steady.
        fn until_steady(&mut self, offset_ms: i64) -> u64 {
            (1..10_000)
                .find(|_| self.read(&[offset_ms]) == ClockState::Steady)
                .expect("it ends")
        }
    }

    #[test]
    fn the_clock_is_extrapolated_until_it_is_in_doubt() {
        let mut clock = Readings::new();
        assert_eq!(clock.monitor.expected_ms(clock.start), None);
        clock.read(&[0]);
        let later = clock.start + Duration::from_millis(3_005);
        assert_eq!(clock.monitor.expected_ms(later), Some(1_003_005));
        clock.read(&[90_000_000]);
        assert_eq!(clock.monitor.expected_ms(later), None);
    }

    #[test]
    fn a_clock_that_drifts_is_steady() {
        let mut clock = Readings::new();
        for offset in 0..100 {
            let state = clock.read(&[offset * 1_000]);
            assert_eq!(state, ClockState::Steady, "1 s per reading");
        }
    }

    #[test]
    fn after_a_jump_the_clock_is_in_doubt_for_ten_minutes() {
        for jump in [6_000, -6_000, 3_600_000] {
            let mut clock = Readings::new();
            clock.read(&[0]);
            let state = clock.read(&[jump]);
            assert!(
                matches!(state, ClockState::Jumped { by_ms } if (by_ms - jump).abs() < 10),
                "{state:?}"
            );
            assert_eq!(clock.read(&[jump]), ClockState::InDoubt);
            assert_eq!(clock.until_steady(jump), KEPT_FOR.as_secs() - 1);
            assert_eq!(clock.read(&[jump]), ClockState::Steady);
        }
    }

    #[test]
    fn a_clock_that_returns_is_trusted_after_a_minute() {
        let mut clock = Readings::new();
        clock.read(&[0]);
        clock.read(&[60_000]);
        let state = clock.read(&[0]);
        assert!(
            matches!(state, ClockState::Jumped { .. }),
            "the return is a jump too"
        );
        assert_eq!(clock.until_steady(0), RETURNED_FOR.as_secs());
    }

    #[test]
    fn an_unsteady_clock_stays_in_doubt() {
        let mut clock = Readings::new();
        clock.read(&[0]);
        for reading in 1..2_000 {
            let state = clock.read(&[(reading % 2) * 20_000 + 10_000]);
            assert_ne!(state, ClockState::Steady);
        }
    }

    #[test]
    fn one_node_with_another_clock_is_a_jump() {
        let mut clock = Readings::new();
        assert_eq!(clock.read(&[0, 100, -100]), ClockState::Steady);
        let state = clock.read(&[0, 100, 7_000]);
        assert!(matches!(state, ClockState::Jumped { .. }));
        for _ in 0..1_000 {
            let state = clock.read(&[0, 100, 7_000]);
            assert_ne!(state, ClockState::Steady, "they contradict each other");
        }
    }

    #[test]
    fn a_slow_reply_is_no_jump() {
        let mut clock = Readings::new();
        clock.read(&[0]);
        let sent = clock.start + Duration::from_secs(2);
        let received = sent + Duration::from_secs(30);
        let state = clock.monitor.observe(sent, received, &[1_031_000]);
        assert_eq!(state, ClockState::Steady);
    }
}
