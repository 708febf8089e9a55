//! The steps of a history, and how they are drawn.

use budget_authority::domain::amount::Unit;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::scope::Level;
use proptest::prelude::*;

use super::plans::{Passed, Planned, passed, planned};
use super::policies::{PATTERNS, Rule};
use super::templates::Terms;

/// An overage policy, or none.
pub type Overage = Option<OveragePolicy>;

/// One step. Selectors are taken modulo what there is.
#[derive(Debug, Clone)]
pub enum Step {
    Open {
        tenant: usize,
        place: usize,
        unit: usize,
        allocated: i64,
        limit: i64,
    },
    Reserve {
        tenant: usize,
        place: usize,
        unit: usize,
        amount: i64,
        policy: usize,
        key: usize,
        dry: bool,
    },
    Decide {
        tenant: usize,
        place: usize,
        unit: usize,
        amount: i64,
        key: usize,
    },
    Commit {
        which: usize,
        unit: usize,
        actual: i64,
        key: usize,
    },
    Release {
        which: usize,
        key: usize,
    },
    Extend {
        which: usize,
        key: usize,
    },
    Post {
        tenant: usize,
        place: usize,
        unit: usize,
        actual: i64,
        policy: usize,
        key: usize,
    },
    Fund {
        tenant: usize,
        place: usize,
        unit: usize,
        operation: usize,
        amount: i64,
        spent: Option<i64>,
        key: Option<usize>,
    },
    Govern {
        tenant: usize,
        name: usize,
        rule: Rule,
    },
    /// A change of a ledger.
    Change {
        tenant: usize,
        place: usize,
        unit: usize,
        limit: Option<i64>,
        overage: Option<Overage>,
    },
    Freeze {
        tenant: usize,
        place: usize,
        unit: usize,
        frozen: bool,
    },
    /// A change of a tenant.
    ChangeTenant {
        tenant: usize,
        suspended: bool,
        overage: Overage,
        extensions: i64,
    },
    Close {
        tenant: usize,
    },
    /// A change of what a ledger has besides figures.
    Plan {
        tenant: usize,
        place: usize,
        unit: usize,
        planned: Planned,
    },
    /// Time passes for a ledger.
    Pass {
        tenant: usize,
        place: usize,
        unit: usize,
        passed: Passed,
    },
    Refund {
        /// A usage event, not a reservation.
        event: bool,
        which: usize,
        amount: i64,
        key: usize,
    },
    Lapse {
        which: usize,
    },
    Sweep {
        tenant: usize,
    },
    /// The alert state of a ledger becomes old.
    Age {
        which: usize,
        to_future: bool,
    },
}

pub const PLACES: [&[(Level, &str)]; 5] = [
    &[],
    &[(Level::Workspace, "prod")],
    &[(Level::Workspace, "prod"), (Level::Agent, "bot")],
    &[(Level::Agent, "bot")],
    &[(Level::App, "chat"), (Level::Toolset, "web.search")],
];
pub const UNITS: [Unit; 2] = [Unit::Tokens, Unit::Credits];

/// Amounts of every size, many of them small enough to meet.
pub fn amount() -> impl Strategy<Value = i64> {
    prop_oneof![
        12 => 0..60i64,
        2 => 0..200i64,
        1 => Just(i64::MAX),
        1 => (i64::MAX - 3)..=i64::MAX,
        1 => Just((1i64 << 53) + 1),
        1 => 99_999_999_999_990..100_000_000_000_010i64,
        1 => 0..=i64::MAX,
    ]
}

/// The initial allocation of ledgers: often so small that a history of small amounts exhausts it.
fn allocation() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 40..200i64, 1 => amount()]
}

fn overage() -> impl Strategy<Value = Overage> {
    (0..4usize).prop_map(|which| OveragePolicy::ALL.get(which).copied())
}

/// Mostly wide patterns, so that they meet requests and each other.
fn rule() -> impl Strategy<Value = Rule> {
    let overage = overage();
    let extensions = prop::option::weighted(0.5, 0..3i64);
    let template = (
        allocation(),
        limit(),
        prop::option::of(amount()),
        any::<[bool; 2]>(),
        self::overage(),
    );
    let template =
        template.prop_map(
            |(allocated, limit, window, [renews, observes], overage)| Terms {
                allocated,
                limit,
                window,
                renews,
                observes,
                overage,
            },
        );
    let template = prop::option::weighted(0.4, template);
    let parts = (0..PATTERNS.len(), 0..3i64, overage, extensions, template);
    let active = prop::bool::weighted(0.8);
    (parts, active).prop_map(
        |((pattern, priority, overage, extensions, template), active)| Rule {
            pattern,
            priority,
            overage,
            extensions,
            template,
            active,
        },
    )
}

fn limit() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(0i64), 3 => 1..120i64, 1 => amount()]
}

fn open() -> impl Strategy<Value = Step> {
    (place(), allocation(), limit()).prop_map(|((tenant, place, unit), allocated, limit)| {
        Step::Open {
            tenant,
            place,
            unit,
            allocated,
            limit,
        }
    })
}

/// A tenant, one of its places, and a unit.
fn place() -> impl Strategy<Value = (usize, usize, usize)> {
    let unit = prop_oneof![4 => Just(0usize), 1 => Just(1usize)];
    (0..2usize, 0..5usize, unit)
}

/// Requests that create something.
fn create() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (place(), amount(), 0..5usize, 0..12usize, prop::bool::weighted(0.1)).prop_map(
            |((tenant, place, unit), amount, policy, key, dry)| Step::Reserve { tenant, place, unit, amount, policy, key, dry }),
        2 => (place(), amount(), 0..8usize).prop_map(|((tenant, place, unit), amount, key)| Step::Decide { tenant, place, unit, amount, key }),
        3 => (place(), amount(), 0..5usize, 0..12usize).prop_map(
            |((tenant, place, unit), actual, policy, key)| Step::Post { tenant, place, unit, actual, policy, key }),
    ]
}

/// Requests about a reservation.
fn finish() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..16usize, prop_oneof![9 => Just(0usize), 1 => Just(1usize)], amount(), 0..6usize).prop_map(
            |(which, unit, actual, key)| Step::Commit { which, unit, actual, key }),
        2 => (0..16usize, 0..6usize).prop_map(|(which, key)| Step::Release { which, key }),
        2 => (0..16usize, 0..14usize).prop_map(|(which, key)| Step::Extend { which, key }),
    ]
}

/// What operators, the dispatcher and time do.
fn other() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (place(), 0..6usize, amount(), prop::option::weighted(0.3, amount()), prop::option::weighted(0.3, 0..4usize)).prop_map(
            |((tenant, place, unit), operation, amount, spent, key)| Step::Fund { tenant, place, unit, operation, amount, spent, key }),
        3 => (0..2usize, 0..3usize, rule()).prop_map(|(tenant, name, rule)| Step::Govern { tenant, name, rule }),
        2 => (place(), prop::option::of(limit()), prop::option::of(overage())).prop_map(
            |((tenant, place, unit), limit, overage)| Step::Change { tenant, place, unit, limit, overage }),
        2 => (place(), prop::bool::weighted(0.4)).prop_map(
            |((tenant, place, unit), frozen)| Step::Freeze { tenant, place, unit, frozen }),
        1 => (0..2usize, prop::bool::weighted(0.3), overage(), 0..4i64).prop_map(
            |(tenant, suspended, overage, extensions)| Step::ChangeTenant { tenant, suspended, overage, extensions }),
        6 => (place(), planned()).prop_map(
            |((tenant, place, unit), planned)| Step::Plan { tenant, place, unit, planned }),
        5 => (place(), passed()).prop_map(
            |((tenant, place, unit), passed)| Step::Pass { tenant, place, unit, passed }),
        5 => (prop::bool::weighted(0.4), 0..16usize, amount(), 0..6usize).prop_map(
            |(event, which, amount, key)| Step::Refund { event, which, amount, key }),
        2 => (0..16usize).prop_map(|which| Step::Lapse { which }),
        1 => (0..2usize).prop_map(|tenant| Step::Sweep { tenant }),
        3 => (0..16usize, prop::bool::weighted(0.2)).prop_map(|(which, to_future)| Step::Age { which, to_future }),
        1 => open(),
    ]
}

/// A history: some ledgers first, then anything.
pub fn history() -> impl Strategy<Value = Vec<Step>> {
    let some = prop::collection::vec(open(), 2..6);
    let step = prop_oneof![11 => create(), 10 => finish(), 24 => other()];
    // A close, if any, comes late: little happens after it.
    let close = prop::option::weighted(0.3, (0..2usize, 0..15usize));
    (some, prop::collection::vec(step, 1..60), close).prop_map(|(mut steps, more, close)| {
        steps.extend(more);
        if let Some((tenant, from_end)) = close {
            let place = steps.len().saturating_sub(from_end);
            steps.insert(place, Step::Close { tenant });
        }
        steps
    })
}

/// A history in groups. The steps of a group are requests that batches of one script run, or it is one other step.
pub fn groups() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let some = prop::collection::vec(open().prop_map(|step| vec![step]), 2..6);
    let group = prop_oneof![
        4 => repeating(create().boxed()),
        4 => repeating(finish().boxed()),
        4 => other().prop_map(|step| vec![step]),
    ];
    let close = prop::option::weighted(0.2, (0..2usize, 0..5usize));
    (some, prop::collection::vec(group, 1..24), close).prop_map(|(mut groups, more, close)| {
        groups.extend(more);
        if let Some((tenant, from_end)) = close {
            let place = groups.len().saturating_sub(from_end);
            groups.insert(place, vec![Step::Close { tenant }]);
        }
        groups
    })
}

/// Up to ten steps, and now and then one of them again.
fn repeating(step: BoxedStrategy<Step>) -> impl Strategy<Value = Vec<Step>> {
    let again = prop::option::weighted(0.4, any::<prop::sample::Index>());
    (prop::collection::vec(step, 1..10), again).prop_map(|(mut steps, again)| {
        steps.extend(again.map(|which| which.get(&steps).clone()));
        steps
    })
}
