//! The turn of a ledger: what the time that has passed makes of its figures. However many periods it spans, they are applied at once,
//! with the result of one turn after the other.

use crate::domain::period::{Bounds, Schedule};

/// The figures that a turn moves. What is reserved stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Allocated, increases included.
    pub allocated: i64,
    /// Charged in this period.
    pub spent: i64,
    /// Charged beyond the available funds.
    pub debt: i64,
}

/// What each period gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// Allocated anew.
    pub allocated: i64,
    /// The most that the period before leaves to it.
    pub carried_max: i64,
}

/// A temporary increase of what is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedIncrease {
    /// By how much.
    pub amount: i64,
    /// When it ends, in milliseconds since the epoch.
    pub until_ms: i64,
}

/// The periods of a ledger, as far as a turn needs them.
#[derive(Debug, Clone)]
pub struct Periods {
    /// When they begin.
    pub schedule: Schedule,
    /// What each gets.
    pub renewal: Renewal,
    /// End of the present one, in milliseconds since the epoch.
    pub end_ms: i64,
}

/// The result of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turned {
    /// The figures afterwards.
    pub figures: Figures,
    /// The period that has begun, if one has, and what it got from the period before.
    pub begun: Option<(Bounds, i64)>,
}

/// Turns a ledger to `now_ms`, in milliseconds since the epoch: periods begin and increases end in the order of time, an increase first
/// where both happen at once. What does not happen by then changes nothing.
pub fn turned(
    figures: Figures,
    periods: Option<&Periods>,
    increases: &[TimedIncrease],
    now_ms: i64,
) -> Turned {
    let mut turned = Turned {
        figures,
        begun: None,
    };
    let mut ends: Vec<&TimedIncrease> = increases.iter().collect();
    ends.sort_by_key(|increase| increase.until_ms);
    let mut active = sum(ends.iter().map(|increase| increase.amount));
    let (mut left, mut last_ms) = (ends.as_slice(), None);
    loop {
        let next = left.first().filter(|next| next.until_ms <= now_ms);
        // A period that begins as an increase ends begins without it.
        let until_ms = next.map_or(now_ms, |next| next.until_ms.saturating_sub(1));
        if let Some(periods) = periods {
            let begun = periods.begun(last_ms, until_ms);
            if begun > 0 {
                let carried = turned.figures.renew(begun, periods.renewal, active);
                turned.begun = Some((periods.bounds(until_ms), carried));
                last_ms = Some(until_ms);
            }
        }
        let Some((next, rest)) = left.split_first().filter(|_| next.is_some()) else {
            return turned;
        };
        let allocated = turned.figures.allocated.saturating_sub(next.amount);
        turned.figures.allocated = allocated.max(0);
        active = sum(rest.iter().map(|increase| increase.amount));
        left = rest;
    }
}

fn sum(amounts: impl Iterator<Item = i64>) -> i64 {
    amounts.fold(0, i64::saturating_add)
}

impl Periods {
    /// How many periods begin until a time: all since the end of the stored one, or since a later time.
    fn begun(&self, after_ms: Option<i64>, until_ms: i64) -> u64 {
        match after_ms {
            Some(after_ms) => self.schedule.boundaries(after_ms, until_ms),
            None if until_ms < self.end_ms => 0,
            None => 1 + self.schedule.boundaries(self.end_ms, until_ms),
        }
    }

    /// The period that contains a time after the stored one. It begins at the end of that one at the earliest: another release may have
    /// written it, with other data of the time zone.
    fn bounds(&self, at_ms: i64) -> Bounds {
        let bounds = self.schedule.bounds(at_ms);
        Bounds {
            start_ms: bounds.start_ms.max(self.end_ms),
            ..bounds
        }
    }
}

impl Renewal {
    /// What a new period has if something is carried over. `increases`: the sum of the active ones.
    fn total(self, carried: i64, increases: i64) -> i64 {
        self.allocated
            .saturating_add(carried)
            .saturating_add(increases)
    }
}

impl Figures {
    /// Begins `periods` one after the other; returns what the last one got from the one before. `increases`: the sum of those that last
    /// through all of them. Sums beyond 64 bits become the highest integer.
    fn renew(&mut self, periods: u64, renewal: Renewal, increases: i64) -> i64 {
        let (mut left, mut carried) = (periods, 0);
        // Four times at most: one period; those whose allocation goes into debt as a whole; the one that pays the last of it; the rest.
        while left > 0 {
            carried = self.renew_once(renewal, increases);
            left -= 1;
            if self.debt > 0 {
                // It took all that was allocated, so nothing is carried over.
                let paid = renewal.total(0, increases);
                let times = self.debt.checked_div(paid);
                let times = times.map_or(left, |times| left.min(times.unsigned_abs()));
                if times > 0 {
                    *self = Self {
                        allocated: paid,
                        spent: paid,
                        debt: self
                            .debt
                            .saturating_sub_unsigned(paid.unsigned_abs() * times),
                    };
                    (carried, left) = (0, left - times);
                }
            } else if self.spent == 0 && left > 0 {
                // Nothing is charged or owed, so each period leaves all that it got.
                let bound = renewal.carried_max.min(i64::MAX - increases);
                let more = i128::from(renewal.allocated) * i128::from(left);
                carried = clamped(i128::from(carried) + more, bound);
                self.allocated = renewal.total(carried, increases);
                left = 0;
            }
        }
        carried
    }

    fn renew_once(&mut self, renewal: Renewal, increases: i64) -> i64 {
        let taken = [increases, self.spent, self.debt].map(i128::from);
        let rest = i128::from(self.allocated) - taken.iter().sum::<i128>();
        let carried = clamped(rest, renewal.carried_max);
        self.allocated = renewal.total(carried, increases);
        self.spent = self.debt.min(self.allocated);
        self.debt -= self.spent;
        carried
    }
}

/// The number within 0 and a bound.
fn clamped(number: i128, bound: i64) -> i64 {
    i64::try_from(number.max(0)).map_or(bound, |number| number.min(bound))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::moment::Moment;
    use crate::domain::period::{Every, Purpose, Zone};

    const HOUR_MS: i64 = 3_600_000;

    /// One turn after the other, as the rule is written: at each time when something is due, ends of increases first.
    fn step_by_step(
        mut figures: Figures,
        periods: Option<&Periods>,
        increases: &[TimedIncrease],
        now_ms: i64,
    ) -> Turned {
        let mut active = increases.to_vec();
        active.sort_by_key(|increase| increase.until_ms);
        let (mut end_ms, mut begun) = (periods.map(|periods| periods.end_ms), None);
        loop {
            let ends_ms = active.first().map(|increase| increase.until_ms);
            let times = [ends_ms, end_ms].into_iter().flatten();
            let Some(at_ms) = times.min().filter(|at_ms| *at_ms <= now_ms) else {
                return Turned { figures, begun };
            };
            if ends_ms == Some(at_ms) {
                let amount = active.remove(0).amount;
                figures.allocated = figures.allocated.saturating_sub(amount).max(0);
                continue;
            }
            let periods = periods.expect("a period is due");
            let sum = i64::try_from(
                active
                    .iter()
                    .map(|one| i128::from(one.amount))
                    .sum::<i128>(),
            );
            let sum = i128::from(sum.unwrap_or(i64::MAX));
            let wide = i128::from;
            let rest = wide(figures.allocated) - sum - wide(figures.spent) - wide(figures.debt);
            let carried = rest.max(0).min(wide(periods.renewal.carried_max));
            let allocated = wide(periods.renewal.allocated) + carried + sum;
            figures.allocated = i64::try_from(allocated).unwrap_or(i64::MAX);
            figures.spent = figures.debt.min(figures.allocated);
            figures.debt -= figures.spent;
            let bounds = periods.schedule.bounds(at_ms);
            end_ms = Some(bounds.end_ms);
            begun = Some((bounds, i64::try_from(carried).expect("a bounded sum")));
        }
    }

    fn hourly(renewal: Renewal) -> Periods {
        let every = Every::parse("PT1H", Purpose::Period).expect("a duration");
        Periods {
            schedule: Schedule::new(every, &Zone::UTC, Moment::from_ms(0)),
            renewal,
            end_ms: HOUR_MS,
        }
    }

    /// Small, so that sums meet each other; zero; and as large as they can be.
    fn amount() -> impl Strategy<Value = i64> {
        prop_oneof![4 => 0..200i64, 2 => Just(0), 1 => i64::MAX - 300..=i64::MAX]
    }

    fn increases() -> impl Strategy<Value = Vec<TimedIncrease>> {
        let until_ms = prop_oneof![
            // At, just before and just after a boundary.
            (1..40i64, -1..=1i64).prop_map(|(hour, by)| hour * HOUR_MS + by),
            1..40 * HOUR_MS,
        ];
        let increase = (amount(), until_ms);
        let increase = increase.prop_map(|(amount, until_ms)| TimedIncrease { amount, until_ms });
        prop::collection::vec(increase, 0..=8)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

        #[test]
        fn many_turns_at_once_are_as_many_single_ones(
            (allocated, spent, debt) in (amount(), amount(), amount()),
            (renewed, carried_max) in (amount(), amount()),
            increases in increases(),
            has_period in prop::bool::weighted(0.9),
            now_ms in 0..40 * HOUR_MS,
        ) {
            let figures = Figures { allocated, spent, debt };
            let periods = hourly(Renewal { allocated: renewed, carried_max });
            let periods = has_period.then_some(&periods);
            let expected = step_by_step(figures, periods, &increases, now_ms);
            prop_assert_eq!(turned(figures, periods, &increases, now_ms), expected);
        }

        #[test]
        fn a_turn_in_two_parts_is_a_turn_at_once(
            (allocated, spent, debt) in (amount(), amount(), amount()),
            (renewed, carried_max) in (amount(), amount()),
            increases in increases(),
            (first_ms, then_ms) in (0..40 * HOUR_MS, 0..40 * HOUR_MS),
        ) {
            let figures = Figures { allocated, spent, debt };
            let mut periods = hourly(Renewal { allocated: renewed, carried_max });
            let at_once = turned(figures, Some(&periods), &increases, first_ms + then_ms);
            let first = turned(figures, Some(&periods), &increases, first_ms);
            if let Some((bounds, _)) = first.begun {
                periods.end_ms = bounds.end_ms;
            }
            let rest: Vec<TimedIncrease> =
                increases.into_iter().filter(|increase| increase.until_ms > first_ms).collect();
            let then = turned(first.figures, Some(&periods), &rest, first_ms + then_ms);
            prop_assert_eq!(then.figures, at_once.figures);
            prop_assert_eq!(then.begun.or(first.begun), at_once.begun);
        }
    }

    #[test]
    fn centuries_take_no_longer_than_an_hour() {
        let renewal = Renewal {
            allocated: 3,
            carried_max: i64::MAX,
        };
        let figures = Figures {
            allocated: 3,
            spent: 3,
            debt: 100,
        };
        let hours = 200 * 365 * 24;
        let turned = turned(figures, Some(&hourly(renewal)), &[], hours * HOUR_MS);
        // 34 periods pay 100 with 3 each, the last with 1; the others keep all they get.
        let (bounds, carried) = turned.begun.expect("a period");
        assert_eq!(bounds.start_ms, hours * HOUR_MS);
        assert_eq!(carried, 2 + 3 * (hours - 35));
        assert_eq!(turned.figures.allocated, carried + 3);
        assert_eq!((turned.figures.spent, turned.figures.debt), (0, 0));
    }

    #[test]
    fn a_period_never_begins_before_the_stored_one_ends() {
        let renewal = Renewal {
            allocated: 5,
            carried_max: 0,
        };
        let figures = Figures {
            allocated: 7,
            spent: 2,
            debt: 0,
        };
        // Stored by a release that took the hour to end ten minutes earlier, or later.
        for (end_ms, now_ms, start_ms) in [
            (HOUR_MS - 600_000, HOUR_MS - 1, HOUR_MS - 600_000),
            (HOUR_MS + 600_000, HOUR_MS + 600_000, HOUR_MS + 600_000),
            (HOUR_MS - 600_000, HOUR_MS, HOUR_MS),
        ] {
            let mut periods = hourly(renewal);
            periods.end_ms = end_ms;
            let (bounds, carried) = turned(figures, Some(&periods), &[], now_ms)
                .begun
                .expect("a period");
            assert_eq!((bounds.start_ms, carried), (start_ms, 0), "{end_ms}");
            assert!(now_ms < bounds.end_ms);
            assert_eq!(turned(figures, Some(&periods), &[], end_ms - 1).begun, None);
        }
    }
}
