//! Whether Redis's clock can be believed: it is held against the monotonic clock of this process.
//!
//! A jump of more than [`JUMP_MAX`] is not believed until the clock has been back on its old course for [`BACK_FOR`], or
//! has kept its new course for [`NEW_COURSE_FOR`]: by then the holds from before the jump are over by any clock, save the
//! longest ones.

use std::time::Duration;

use tokio::time::Instant;

/// Redis's clock may be off by so much before it counts as a jump.
pub const JUMP_MAX: Duration = Duration::from_secs(5);

/// How long a clock that returned to its old course must keep to it.
pub const BACK_FOR: Duration = Duration::from_secs(60);

/// How long a clock on a new course must keep to that.
pub const NEW_COURSE_FOR: Duration = Duration::from_secs(600);

/// What a look at the clock came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The clock can be believed.
    Steady,
    /// Off by so much since the last look.
    Jumped {
        /// In milliseconds; negative when it jumped back.
        by_ms: i64,
    },
    /// An earlier jump is not over.
    Halted,
}

/// A time and when it was told; from there on it runs like the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Line {
    at: Instant,
    ms: i64,
}

impl Line {
    fn at(self, instant: Instant) -> i64 {
        match instant.checked_duration_since(self.at) {
            Some(later) => self.ms + later.as_millis() as i64,
            None => self.ms - (self.at - instant).as_millis() as i64,
        }
    }

    /// By how much a time told between two instants is off this line; 0 when it can be on it.
    fn deviation(self, sent: Instant, received: Instant, ms: i64) -> i64 {
        let (early, late) = (self.at(sent), self.at(received));
        if ms < early {
            ms - early
        } else if ms > late {
            ms - late
        } else {
            0
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Alarm {
    /// The course that the clock keeps now, and since when.
    candidate: Line,
    since: Instant,
}

/// The course that Redis's clock keeps.
#[derive(Debug, Default)]
pub struct Course {
    /// The course that is believed in.
    line: Option<Line>,
    alarm: Option<Alarm>,
}

impl Course {
    /// Whether a jump is not over yet.
    pub fn is_in_doubt(&self) -> bool {
        self.alarm.is_some()
    }

    /// The latest time that may be believed at an instant when Redis tells `told_ms`: after a jump ahead, what its clock
    /// would tell without the jump.
    pub fn believed_ms(&self, at: Instant, told_ms: i64) -> i64 {
        match (&self.alarm, self.line) {
            (Some(_), Some(line)) => told_ms.min(line.at(at)),
            _ => told_ms,
        }
    }

    /// Judges what the nodes told between two instants.
    pub fn observe(&mut self, sent: Instant, received: Instant, times: &[i64]) -> Verdict {
        let Some(first) = times.first() else {
            return Verdict::Halted;
        };
        let seen = Line {
            at: sent + (received - sent) / 2,
            ms: *first,
        };
        // The largest deviation of any node.
        let off = |line: Line| {
            let deviations = times.iter().map(|ms| line.deviation(sent, received, *ms));
            deviations
                .max_by_key(|deviation| deviation.abs())
                .unwrap_or(0)
        };
        let limit = JUMP_MAX.as_millis() as i64;
        let line = *self.line.get_or_insert(seen);
        match self.alarm {
            None if off(line).abs() <= limit => {
                self.line = Some(seen);
                Verdict::Steady
            }
            Some(alarm) if off(alarm.candidate).abs() <= limit => {
                let back = off(line).abs() <= limit;
                let wait = if back { BACK_FOR } else { NEW_COURSE_FOR };
                if received - alarm.since >= wait {
                    self.line = Some(seen);
                    self.alarm = None;
                    return Verdict::Steady;
                }
                self.alarm = Some(Alarm {
                    candidate: seen,
                    ..alarm
                });
                Verdict::Halted
            }
            alarm => {
                let by_ms = off(alarm.map_or(line, |alarm| alarm.candidate));
                self.alarm = Some(Alarm {
                    candidate: seen,
                    since: received,
                });
                Verdict::Jumped { by_ms }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that is looked at every second, each look taking 10 ms.
    struct Looks {
        course: Course,
        start: Instant,
        elapsed: Duration,
    }

    impl Looks {
        fn new() -> Self {
            Self {
                course: Course::default(),
                start: Instant::now(),
                elapsed: Duration::ZERO,
            }
        }

        fn look(&mut self, offsets_ms: &[i64]) -> Verdict {
            self.elapsed += Duration::from_secs(1);
            let sent = self.start + self.elapsed;
            let ms = self.elapsed.as_millis() as i64 + 5;
            let times: Vec<_> = offsets_ms
                .iter()
                .map(|offset| 1_000_000 + ms + offset)
                .collect();
            self.course
                .observe(sent, sent + Duration::from_millis(10), &times)
        }

        /// How many more looks at this offset it takes until things go on.
        fn until_steady(&mut self, offset_ms: i64) -> u64 {
            (1..10_000)
                .find(|_| self.look(&[offset_ms]) == Verdict::Steady)
                .expect("it ends")
        }
    }

    #[test]
    fn a_clock_that_drifts_is_steady() {
        let mut looks = Looks::new();
        for offset in 0..100 {
            assert_eq!(
                looks.look(&[offset * 1_000]),
                Verdict::Steady,
                "1 s per look"
            );
        }
    }

    #[test]
    fn a_jump_halts_until_the_new_course_was_kept_for_ten_minutes() {
        for jump in [6_000, -6_000, 3_600_000] {
            let mut looks = Looks::new();
            looks.look(&[0]);
            let verdict = looks.look(&[jump]);
            assert!(
                matches!(verdict, Verdict::Jumped { by_ms } if (by_ms - jump).abs() < 10),
                "{verdict:?}"
            );
            assert_eq!(looks.look(&[jump]), Verdict::Halted);
            assert_eq!(looks.until_steady(jump), NEW_COURSE_FOR.as_secs() - 1);
            assert_eq!(looks.look(&[jump]), Verdict::Steady);
        }
    }

    #[test]
    fn a_clock_that_returns_is_believed_after_a_minute() {
        let mut looks = Looks::new();
        looks.look(&[0]);
        looks.look(&[60_000]);
        assert!(
            matches!(looks.look(&[0]), Verdict::Jumped { .. }),
            "back is a jump too"
        );
        assert_eq!(looks.until_steady(0), BACK_FOR.as_secs());
    }

    #[test]
    fn an_unsteady_clock_keeps_things_halted() {
        let mut looks = Looks::new();
        looks.look(&[0]);
        for turn in 1..2_000 {
            assert_ne!(looks.look(&[(turn % 2) * 20_000 + 10_000]), Verdict::Steady);
        }
    }

    #[test]
    fn one_node_with_another_clock_halts_all() {
        let mut looks = Looks::new();
        assert_eq!(looks.look(&[0, 100, -100]), Verdict::Steady);
        assert!(matches!(
            looks.look(&[0, 100, 7_000]),
            Verdict::Jumped { .. }
        ));
        for _ in 0..1_000 {
            assert_ne!(
                looks.look(&[0, 100, 7_000]),
                Verdict::Steady,
                "they contradict each other"
            );
        }
    }

    #[test]
    fn a_slow_answer_is_no_jump() {
        let mut looks = Looks::new();
        looks.look(&[0]);
        let sent = looks.start + Duration::from_secs(2);
        let verdict = looks
            .course
            .observe(sent, sent + Duration::from_secs(30), &[1_031_000]);
        assert_eq!(verdict, Verdict::Steady);
    }
}
