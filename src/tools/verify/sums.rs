//! What the records of a ledger come to at one moment, modulo 2^64.

use crate::store::tools::verify::Figures;

/// Figures that records move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Moved {
    pub reserved: i64,
    pub spent: i64,
    pub debt: i64,
}

impl Moved {
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

/// A ledger's records so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    /// What surely counts.
    moved: Moved,
    /// What happened in the very millisecond at which the ledger was read: each may count or not.
    uncertain: Vec<Moved>,
}

/// More uncertain moves than this are not tried in all combinations.
const UNCERTAIN_MAX: usize = 14;

/// How stored figures compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Right,
    /// The records come to these figures.
    Wrong(Moved),
    /// Too much happened within the millisecond.
    Unknown,
}

/// A record's share in one ledger: what it moved while active and in the end, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub begun_ms: i64,
    pub ended_ms: Option<i64>,
    pub active: Moved,
    pub ended: Moved,
}

impl Sums {
    /// Counts a record as it stood at `at_ms`.
    pub(super) fn count(&mut self, life: Life, at_ms: i64) {
        if life.begun_ms > at_ms {
            return;
        }
        if life.begun_ms == at_ms {
            self.uncertain.push(life.active);
        } else {
            self.moved = self.moved.plus(life.active);
        }
        let Some(ended_ms) = life.ended_ms else {
            return;
        };
        let change = life.ended.minus(life.active);
        if ended_ms == at_ms {
            self.uncertain.push(change);
        } else if ended_ms < at_ms {
            self.moved = self.moved.plus(change);
        }
    }

    pub(super) fn compare(&self, figures: &Figures) -> Comparison {
        let computed = Moved::base(figures).plus(self.moved);
        let difference = Moved::stored(figures).minus(computed);
        if explained(difference, &self.uncertain) {
            return Comparison::Right;
        }
        match self.uncertain.len() <= UNCERTAIN_MAX {
            true => Comparison::Wrong(computed),
            false => Comparison::Unknown,
        }
    }
}

/// Whether some of the moves come to the difference.
fn explained(difference: Moved, moves: &[Moved]) -> bool {
    if difference == Moved::default() {
        return true;
    }
    if moves.len() > UNCERTAIN_MAX {
        return false;
    }
    moves.split_first().is_some_and(|(first, rest)| {
        explained(difference, rest) || explained(difference.minus(*first), rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tools::verify::Strained;

    fn ledger(reserved: i64, spent: i64, debt: i64) -> Figures {
        Figures {
            is_over_limit: false,
            strained: Strained::default(),
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

    fn life(begun_ms: i64, ended_ms: Option<i64>) -> Life {
        let held = Moved {
            reserved: 10,
            ..Moved::default()
        };
        let ended = Moved {
            spent: 7,
            debt: 1,
            ..Moved::default()
        };
        Life {
            begun_ms,
            ended_ms,
            active: held,
            ended,
        }
    }

    fn judge(lives: &[Life], figures: &Figures) -> Comparison {
        let mut sums = Sums::default();
        lives.iter().for_each(|life| sums.count(*life, 100));
        sums.compare(figures)
    }

    #[test]
    fn a_record_counts_as_it_stood_when_the_ledger_was_read() {
        for (begun, ended, figures) in [
            (50, None, ledger(10, 5, 0)),
            (50, Some(60), ledger(0, 12, 1)),
            (50, Some(150), ledger(10, 5, 0)),
            (150, None, ledger(0, 5, 0)),
            (150, Some(160), ledger(0, 5, 0)),
        ] {
            assert_eq!(
                judge(&[life(begun, ended)], &figures),
                Comparison::Right,
                "{begun} {ended:?}"
            );
        }
        let computed = Moved {
            reserved: 10,
            spent: 5,
            debt: 0,
        };
        assert_eq!(
            judge(&[life(50, None)], &ledger(11, 5, 0)),
            Comparison::Wrong(computed)
        );
    }

    #[test]
    fn what_happened_in_that_millisecond_may_count_or_not() {
        for figures in [ledger(0, 5, 0), ledger(10, 5, 0), ledger(0, 12, 1)] {
            assert_eq!(judge(&[life(100, Some(100))], &figures), Comparison::Right);
        }
        assert!(matches!(
            judge(&[life(100, None)], &ledger(20, 5, 0)),
            Comparison::Wrong(_)
        ));
        let many = vec![life(100, None); 20];
        assert_eq!(judge(&many, &ledger(200, 5, 0)), Comparison::Unknown);
    }

    #[test]
    fn sums_wrap_around_as_the_bases_do() {
        let mut figures = ledger(0, i64::MIN + 6, 1);
        figures.base_spent = i64::MAX;
        assert_eq!(judge(&[life(50, Some(60))], &figures), Comparison::Right);
    }
}
