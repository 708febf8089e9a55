//! What a ledger has besides figures, in plain arithmetic: a period, limits over windows, increases, and whether it observes.

use proptest::prelude::*;

use super::draw::amount;
use super::pure::{Model, ModelLedger, Name};

const MOST: i128 = i64::MAX as i128;

/// See the module documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub observes: bool,
    /// What each period gets, and the most that it carries over.
    pub period: Option<(i128, i128)>,
    /// Limit and what is used.
    pub windows: Vec<(i128, i128)>,
    /// Id and amount of those that last.
    pub increases: Vec<(String, i128)>,
    /// Amounts of those whose time is up since the last turn.
    pub ended: Vec<i128>,
    /// How many periods have begun since the last turn.
    pub begun: u32,
}

/// A change of a plan.
#[derive(Debug, Clone)]
pub enum Planned {
    /// What each period gets, where it is not what is allocated; the length, the time zone and the rollover policy, as selectors; how
    /// much is carried over at most.
    Period(Option<(Option<i64>, [usize; 3], Option<i64>)>),
    Limits(Vec<i64>),
    Observe(bool),
    Increase(i64),
    EndIncrease(usize),
}

/// What passes.
#[derive(Debug, Clone)]
pub enum Passed {
    Periods(u32),
    Increase(usize),
    Windows,
}

pub fn planned() -> impl Strategy<Value = Planned> {
    let period = (
        prop::option::of(amount()),
        [0..3usize, 0..5usize, 0..3usize],
        prop::option::of(amount()),
    );
    prop_oneof![
        4 => prop::option::weighted(0.9, period).prop_map(Planned::Period),
        3 => prop::collection::vec(amount(), 0..3).prop_map(Planned::Limits),
        2 => any::<bool>().prop_map(Planned::Observe),
        3 => amount().prop_map(Planned::Increase),
        1 => (0..4usize).prop_map(Planned::EndIncrease),
    ]
}

pub fn passed() -> impl Strategy<Value = Passed> {
    prop_oneof![
        4 => prop_oneof![3 => Just(1u32), 2 => 2..40u32].prop_map(Passed::Periods),
        2 => (0..4usize).prop_map(Passed::Increase),
        1 => Just(Passed::Windows),
    ]
}

impl Plan {
    /// By how much increases raise what is allocated, those that have just ended included.
    pub fn increased(&self) -> i128 {
        let lasting = self.increases.iter().map(|(_, amount)| amount);
        lasting.chain(&self.ended).sum::<i128>().min(MOST)
    }

    /// What a new period is allocated, after a ledger with these figures.
    fn allocated(&self, before: ModelLedger, increased: i128) -> i128 {
        let Some((allocated, carried_max)) = self.period else {
            return before.allocated;
        };
        let rest = before.allocated - increased - before.spent - before.debt;
        let carried = rest.clamp(0, carried_max);
        ((allocated + carried).min(MOST) + increased).min(MOST)
    }
}

impl Model {
    /// The ledgers that refuse.
    pub fn enforcing(&self, names: &[Name]) -> Vec<Name> {
        let observes = |name: &Name| self.plans.get(name).is_some_and(|plan| plan.observes);
        names
            .iter()
            .filter(|name| !observes(name))
            .cloned()
            .collect()
    }

    /// Whether the figures of a ledger have no room for a hold and its charge.
    pub fn is_out_of_range(&self, name: &Name, amount: i128) -> bool {
        let ledger = self.ledgers[name];
        let used = ledger.spent + ledger.reserved + amount;
        used > MOST || ledger.remaining() - amount < i128::from(i64::MIN)
    }

    /// The same for a ledger that observes.
    pub fn observed_beyond(&self, name: &Name, amount: i128) -> bool {
        self.enforcing(std::slice::from_ref(name)).is_empty() && self.is_out_of_range(name, amount)
    }

    /// Whether a window of a limit has no room for an amount beside what is held.
    pub fn is_full(&self, name: &Name, amount: i128) -> bool {
        let reserved = self.ledgers[name].reserved;
        let windows = self.plans.get(name).map(|plan| plan.windows.as_slice());
        let mut windows = windows.unwrap_or_default().iter();
        windows.any(|(limit, used)| used + reserved + amount > *limit)
    }

    /// Whether funds or limits of a ledger have no room for an amount.
    pub fn is_short(&self, name: &Name, amount: i128) -> bool {
        self.ledgers[name].remaining() < amount || self.is_full(name, amount)
    }

    /// Whether a hold would be refused, or reported, for want of funds by a ledger that has no other reason.
    pub fn lacks_room(&self, names: &[Name], amount: i128) -> bool {
        let enforcing = self.enforcing(names);
        names.iter().any(|name| {
            let ledger = self.ledgers[name];
            let has_other = ledger.over || ledger.debt > 0;
            let range = !enforcing.contains(name) && self.is_out_of_range(name, amount);
            range || !has_other && self.is_short(name, amount)
        })
    }

    /// Counts a charge in the windows of ledgers.
    pub fn count(&mut self, names: &[Name], charged: i128) {
        for name in names {
            for (_, used) in self
                .plans
                .get_mut(name)
                .into_iter()
                .flat_map(|plan| &mut plan.windows)
            {
                *used = (*used + charged).min(MOST);
            }
        }
    }

    /// What RENEW allocates.
    pub fn renewed(&self, name: &Name) -> i128 {
        let before = self.ledgers[name];
        let plan = self.plans.get(name);
        plan.map_or(before.allocated, |plan| {
            plan.allocated(before, plan.increased())
        })
    }

    /// A ledger as it is once it has turned: one period after the other, then the ends of increases.
    pub fn after_turn(&self, name: &Name) -> ModelLedger {
        let mut ledger = self.ledgers[name];
        let Some(plan) = self.plans.get(name) else {
            return ledger;
        };
        for _ in 0..plan.begun {
            ledger.allocated = plan.allocated(ledger, plan.increased());
            ledger.spent = ledger.debt.min(ledger.allocated);
            ledger.debt -= ledger.spent;
            ledger.over = ledger.debt > ledger.limit;
        }
        for amount in &plan.ended {
            ledger.allocated = (ledger.allocated - amount).max(0);
        }
        ledger
    }

    /// Turns ledgers, if they are due.
    pub fn turn(&mut self, names: &[Name]) {
        for name in names {
            let (before, after) = (self.ledgers[name], self.after_turn(name));
            if let Some(plan) = self.plans.get_mut(name) {
                if plan.begun > 0 {
                    self.periods.begin(name);
                }
                (plan.begun, plan.ended) = (0, Vec::new());
            }
            self.ledgers.insert(name.clone(), after);
            if !after.over {
                self.charged_over.remove(name);
            }
            let figures = |ledger: ModelLedger| (ledger.allocated, ledger.spent, ledger.debt);
            if figures(before) != figures(after) {
                self.turned(name, before);
            }
        }
    }

    /// Whether the figures of every ledger stay within 64 bits when it turns. If not, it stays as it is, which is not modelled.
    pub fn can_turn(&self) -> bool {
        let fits = |name| i64::try_from(self.after_turn(name).remaining()).is_ok();
        self.ledgers.keys().all(fits)
    }
}
