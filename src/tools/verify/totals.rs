//! The figures of a ledger as its records give them at one moment, modulo 2^64.

use std::collections::HashSet;

use crate::store::tools::verify::{Amounts, Figures};

impl Amounts {
    fn plus(self, other: Self) -> Self {
        self.each(other, i64::wrapping_add)
    }

    fn minus(self, other: Self) -> Self {
        self.each(other, i64::wrapping_sub)
    }

    fn each(self, other: Self, with: fn(i64, i64) -> i64) -> Self {
        Self {
            reserved: with(self.reserved, other.reserved),
            spent: with(self.spent, other.spent),
            debt: with(self.debt, other.debt),
        }
    }

    /// The amounts of a record that charged `charged`, of which `debt` is owed.
    pub(super) fn charged(charged: i64, debt: i64) -> Self {
        Self {
            reserved: 0,
            spent: charged.wrapping_sub(debt),
            debt,
        }
    }
}

/// The records of a ledger.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    /// Changes before the ledger was read.
    certain: Amounts,
    /// Changes in the millisecond in which the ledger was read; each may count or not.
    uncertain: Vec<Amounts>,
}

/// More uncertain changes than this are not tried in all combinations. The members of a batch share a millisecond.
const UNCERTAIN_MAX: usize = 32;

/// Effect of a record on one ledger, while active and after its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    pub created_ms: i64,
    pub ended_ms: Option<i64>,
    pub active: Amounts,
    pub ended: Amounts,
}

impl Totals {
    /// Counts a record as it was at `at_ms`.
    pub(super) fn count(&mut self, effect: Effect, at_ms: i64) {
        if effect.created_ms > at_ms {
            return;
        }
        if effect.created_ms == at_ms {
            self.uncertain.push(effect.active);
        } else {
            self.certain = self.certain.plus(effect.active);
        }
        let Some(ended_ms) = effect.ended_ms else {
            return;
        };
        let change = effect.ended.minus(effect.active);
        if ended_ms == at_ms {
            self.uncertain.push(change);
        } else if ended_ms < at_ms {
            self.certain = self.certain.plus(change);
        }
    }

    /// The figures that the records give: the stored ones if uncertain changes explain the difference. `None` if too much
    /// changed within the millisecond.
    pub(super) fn expected(&self, figures: &Figures) -> Option<Amounts> {
        let computed = figures.base.plus(self.certain);
        let difference = figures.stored.minus(computed);
        if explained(difference, &self.uncertain) {
            return Some(figures.stored);
        }
        (self.uncertain.len() <= UNCERTAIN_MAX).then_some(computed)
    }
}

/// Whether some of the changes add up to the difference: some of one half, and some of the other.
fn explained(difference: Amounts, changes: &[Amounts]) -> bool {
    if difference == Amounts::default() {
        return true;
    }
    if changes.len() > UNCERTAIN_MAX {
        return false;
    }
    let (first, second) = changes.split_at(changes.len() / 2);
    let (first, second) = (totals(first), totals(second));
    second
        .iter()
        .any(|sum| first.contains(&difference.minus(*sum)))
}

/// The totals of every choice of changes.
fn totals(changes: &[Amounts]) -> HashSet<Amounts> {
    let mut totals = HashSet::from([Amounts::default()]);
    for change in changes {
        let with: Vec<_> = totals.iter().map(|sum| sum.plus(*change)).collect();
        totals.extend(with);
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(reserved: i64, spent: i64, debt: i64) -> Figures {
        Figures {
            is_over_limit: false,
            over_limit_by: None,
            is_indexed: true,
            is_turn_indexed: true,
            allocated: 1_000,
            remaining: 0,
            stored: Amounts {
                reserved,
                spent,
                debt,
            },
            base: Amounts {
                spent: 5,
                ..Amounts::default()
            },
        }
    }

    fn effect(created_ms: i64, ended_ms: Option<i64>) -> Effect {
        let held = Amounts {
            reserved: 10,
            ..Amounts::default()
        };
        let ended = Amounts {
            spent: 7,
            debt: 1,
            ..Amounts::default()
        };
        Effect {
            created_ms,
            ended_ms,
            active: held,
            ended,
        }
    }

    fn expected(effects: &[Effect], figures: &Figures) -> Option<Amounts> {
        let mut totals = Totals::default();
        effects.iter().for_each(|effect| totals.count(*effect, 100));
        totals.expected(figures)
    }

    #[test]
    fn a_record_counts_as_of_the_reading_of_the_ledger() {
        // Of a wrong ledger, the last column is the reserved amount that the records give.
        for (created, ended, [reserved, spent, debt], computed) in [
            (50, None, [10, 5, 0], None),
            (50, Some(60), [0, 12, 1], None),
            (50, Some(150), [10, 5, 0], None),
            (150, None, [0, 5, 0], None),
            (150, Some(160), [0, 5, 0], None),
            (50, None, [11, 5, 0], Some(10)),
            // A change in that millisecond may count or not.
            (100, Some(100), [0, 5, 0], None),
            (100, Some(100), [10, 5, 0], None),
            (100, Some(100), [0, 12, 1], None),
            (100, None, [20, 5, 0], Some(0)),
        ] {
            let figures = ledger(reserved, spent, debt);
            let wanted = Amounts {
                reserved: computed.unwrap_or(reserved),
                ..figures.stored
            };
            let found = expected(&[effect(created, ended)], &figures);
            assert_eq!(found, Some(wanted), "{created} {ended:?}");
        }
        // The holds of a batch may all have come in that millisecond.
        let batch = vec![effect(100, None); 32];
        let found = expected(&batch, &ledger(70, 5, 0));
        assert_eq!(found.map(|it| it.reserved), Some(70));
        assert_eq!(
            expected(&batch, &ledger(75, 5, 0)).map(|it| it.reserved),
            Some(0)
        );
        let many = vec![effect(100, None); UNCERTAIN_MAX + 1];
        assert_eq!(expected(&many, &ledger(200, 5, 0)), None);
    }

    #[test]
    fn totals_wrap_around_as_the_bases_do() {
        let mut figures = ledger(0, i64::MIN + 6, 1);
        figures.base.spent = i64::MAX;
        let found = expected(&[effect(50, Some(60))], &figures);
        assert_eq!(found, Some(figures.stored));
    }
}
