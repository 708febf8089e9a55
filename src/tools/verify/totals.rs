//! The figures of a ledger as its records give them at one moment, modulo 2^64.

use crate::store::tools::verify::Figures;

/// The figures that records change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Amounts {
    pub reserved: i64,
    pub spent: i64,
    pub debt: i64,
}

impl Amounts {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            reserved: self.reserved.wrapping_add(other.reserved),
            spent: self.spent.wrapping_add(other.spent),
            debt: self.debt.wrapping_add(other.debt),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            reserved: self.reserved.wrapping_sub(other.reserved),
            spent: self.spent.wrapping_sub(other.spent),
            debt: self.debt.wrapping_sub(other.debt),
        }
    }

    /// What a record charged, of which `debt` is owed.
    pub(super) fn charged(charged: i64, debt: i64) -> Self {
        Self {
            reserved: 0,
            spent: charged.wrapping_sub(debt),
            debt,
        }
    }

    pub(super) fn stored(figures: &Figures) -> Self {
        Self {
            reserved: figures.reserved,
            spent: figures.spent,
            debt: figures.debt,
        }
    }

    pub(super) fn base(figures: &Figures) -> Self {
        Self {
            reserved: 0,
            spent: figures.base_spent,
            debt: figures.base_debt,
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

/// More uncertain changes than this are not tried in all combinations.
const UNCERTAIN_MAX: usize = 14;

/// How stored figures compare with the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Right,
    /// The records give these figures.
    Wrong(Amounts),
    /// Too much changed within the millisecond.
    Unknown,
}

/// What a record does to one ledger, while active and after its end, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    pub begun_ms: i64,
    pub ended_ms: Option<i64>,
    pub active: Amounts,
    pub ended: Amounts,
}

impl Totals {
    /// Counts a record as it was at `at_ms`.
    pub(super) fn count(&mut self, effect: Effect, at_ms: i64) {
        if effect.begun_ms > at_ms {
            return;
        }
        if effect.begun_ms == at_ms {
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

    pub(super) fn compare(&self, figures: &Figures) -> Comparison {
        let computed = Amounts::base(figures).plus(self.certain);
        let difference = Amounts::stored(figures).minus(computed);
        if explained(difference, &self.uncertain) {
            return Comparison::Right;
        }
        match self.uncertain.len() <= UNCERTAIN_MAX {
            true => Comparison::Wrong(computed),
            false => Comparison::Unknown,
        }
    }
}

/// Whether some of the changes add up to the difference.
fn explained(difference: Amounts, changes: &[Amounts]) -> bool {
    if difference == Amounts::default() {
        return true;
    }
    if changes.len() > UNCERTAIN_MAX {
        return false;
    }
    changes.split_first().is_some_and(|(first, rest)| {
        explained(difference, rest) || explained(difference.minus(*first), rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tools::verify::IndexScores;

    fn ledger(reserved: i64, spent: i64, debt: i64) -> Figures {
        Figures {
            is_over_limit: false,
            scores: IndexScores::default(),
            status: "ACTIVE".to_owned(),
            allocated: 1_000,
            spent,
            reserved,
            debt,
            remaining: 0,
            base_spent: 5,
            base_debt: 0,
        }
    }

    fn effect(begun_ms: i64, ended_ms: Option<i64>) -> Effect {
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
            begun_ms,
            ended_ms,
            active: held,
            ended,
        }
    }

    fn compare(effects: &[Effect], figures: &Figures) -> Comparison {
        let mut totals = Totals::default();
        effects.iter().for_each(|effect| totals.count(*effect, 100));
        totals.compare(figures)
    }

    #[test]
    fn a_record_counts_as_it_was_when_the_ledger_was_read() {
        for (begun, ended, figures) in [
            (50, None, ledger(10, 5, 0)),
            (50, Some(60), ledger(0, 12, 1)),
            (50, Some(150), ledger(10, 5, 0)),
            (150, None, ledger(0, 5, 0)),
            (150, Some(160), ledger(0, 5, 0)),
        ] {
            assert_eq!(
                compare(&[effect(begun, ended)], &figures),
                Comparison::Right,
                "{begun} {ended:?}"
            );
        }
        let computed = Amounts {
            reserved: 10,
            spent: 5,
            debt: 0,
        };
        assert_eq!(
            compare(&[effect(50, None)], &ledger(11, 5, 0)),
            Comparison::Wrong(computed)
        );
    }

    #[test]
    fn a_change_in_that_millisecond_may_count_or_not() {
        for figures in [ledger(0, 5, 0), ledger(10, 5, 0), ledger(0, 12, 1)] {
            assert_eq!(
                compare(&[effect(100, Some(100))], &figures),
                Comparison::Right
            );
        }
        assert!(matches!(
            compare(&[effect(100, None)], &ledger(20, 5, 0)),
            Comparison::Wrong(_)
        ));
        let many = vec![effect(100, None); 20];
        assert_eq!(compare(&many, &ledger(200, 5, 0)), Comparison::Unknown);
    }

    #[test]
    fn totals_wrap_around_as_the_bases_do() {
        let mut figures = ledger(0, i64::MIN + 6, 1);
        figures.base_spent = i64::MAX;
        assert_eq!(
            compare(&[effect(50, Some(60))], &figures),
            Comparison::Right
        );
    }
}
