//! Steps that change the plan of a ledger, or let time pass for it, on both sides.

use budget_authority::admin::Admin;
use budget_authority::domain::amount::Amount;
use budget_authority::domain::budget::increase::BudgetIncreaseRequest;
use budget_authority::domain::budget::ledger::{BudgetUpdateRequest, Enforcement, RolloverPolicy};
use budget_authority::domain::budget::limit::BudgetLimit;
use budget_authority::domain::budget::period::BudgetPeriod;
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::fields::Patch;
use budget_authority::domain::period::{Duration, Every, Purpose, Zone};

use super::draw::{Step, UNITS};
use super::operator_steps::response;
use super::plan_time::{fields_of, kept, pass};
use super::plans::{Plan, Planned};
use super::pure::{Model, Name, Outcome};
use super::sides::subject;
use crate::harness::admin_fixture::{admin_key, ask, scope};
use crate::harness::ledger_fixture::LedgerFixture;

/// Long enough that none ends while a history runs, but at the start of a month.
const LENGTHS: [&str; 3] = ["P1M", "P3M", "P1Y"];
const ZONES: [&str; 5] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
];
/// One that the scripts roll, and one that follows a calendar.
pub const WINDOWS: [&str; 2] = ["PT80000H", "P9Y"];
const INCREASES_MAX: usize = 8;

pub fn key_of(fixture: &LedgerFixture, (tenant, path, unit): &Name) -> String {
    let caller = &fixture.callers[*tenant];
    let keys = fixture.store.keys();
    keys.budget(
        caller.partition,
        caller.tenant.as_str(),
        unit.as_str(),
        path,
    )
}

/// Adds the fields of a seeded ledger that turns and responses need.
pub async fn complete(fixture: &LedgerFixture, name: &Name) {
    let fields = [
        ("tenant", fixture.callers[name.0].tenant.as_str()),
        ("scope", &name.1),
        ("unit", name.2.as_str()),
        ("created_at_ms", "1000"),
    ];
    fixture.set(&key_of(fixture, name), &fields).await;
}

/// The reply of the service, and that of the model; none where the step makes no sense.
pub async fn take(
    fixture: &LedgerFixture,
    model: &mut Model,
    step: &Step,
) -> Option<(Outcome, Outcome)> {
    match step.clone() {
        Step::Plan {
            tenant,
            place,
            unit,
            planned,
        } => {
            let name = (tenant, subject(fixture, tenant, place).1, UNITS[unit]);
            Some(match planned {
                Planned::Increase(amount) => increase(fixture, model, &name, amount).await,
                Planned::EndIncrease(which) => end(fixture, model, &name, which).await,
                planned => change(fixture, model, &name, planned).await,
            })
        }
        Step::Pass {
            tenant,
            place,
            unit,
            passed,
        } => {
            let name = (tenant, subject(fixture, tenant, place).1, UNITS[unit]);
            let is_there = model.ledgers.contains_key(&name) && !model.closed.contains(&tenant);
            if is_there {
                let before = model.clone();
                let kept = kept(fixture, &name).await;
                pass(fixture, model, &name, &passed).await;
                if !model.can_turn() {
                    // Undone on both sides: what would happen is not modelled.
                    *model = before;
                    fixture
                        .set(&key_of(fixture, &name), &fields_of(&kept))
                        .await;
                }
            }
            Some((Outcome::Extended, Outcome::Extended))
        }
        other => panic!("no step of plans: {other:?}"),
    }
}

fn limits_of(name: &Name, amounts: &[i64]) -> Vec<BudgetLimit> {
    let limit = |(every, amount): (&&str, &i64)| BudgetLimit {
        every: Every::parse(every, Purpose::Window).expect("a length"),
        time_zone: Zone::parse("Europe/Berlin").expect("a zone"),
        anchor: None,
        amount: Amount::new(name.2, *amount).expect("not negative"),
    };
    WINDOWS.iter().zip(amounts).map(limit).collect()
}

async fn change(
    fixture: &LedgerFixture,
    model: &mut Model,
    name: &Name,
    planned: Planned,
) -> (Outcome, Outcome) {
    let amount = |value| Amount::new(name.2, value).expect("not negative");
    let mut update = BudgetUpdateRequest::default();
    match &planned {
        Planned::Period(None) => {
            update.rollover_policy = Some(RolloverPolicy::None);
            update.period = Patch::Clear;
        }
        Planned::Period(Some((allocated, [every, zone, policy], carry))) => {
            let policy = RolloverPolicy::ALL[*policy];
            update.rollover_policy = Some(policy);
            update.period = Patch::Set(BudgetPeriod {
                every: Every::parse(LENGTHS[*every], Purpose::Period).expect("a length"),
                time_zone: Zone::parse(ZONES[*zone]).expect("a zone"),
                anchor: None,
                allocated: allocated.map(amount),
                carry_limit: carry
                    .filter(|_| policy == RolloverPolicy::CarryForward)
                    .map(amount),
            });
        }
        Planned::Limits(amounts) => update.limits = Patch::Set(limits_of(name, amounts)),
        Planned::Observe(observes) => {
            update.enforcement = Some(match observes {
                true => Enforcement::Observe,
                false => Enforcement::Enforce,
            });
        }
        Planned::Increase(_) | Planned::EndIncrease(_) => unreachable!("no PATCH"),
    }
    if let Planned::Limits(_) = planned {
        // So that no charge before is of the millisecond from which they count.
        let later_ms = fixture.now_ms().await + 3;
        fixture.until_ms(later_ms).await;
    }
    let admin = Admin::new(fixture.store.clone(), Dialect::Service);
    let request = ask();
    let result = admin
        .update_budget(&scope(&name.1), name.2, &update, &request.request())
        .await;
    let found = response(result);
    let expected = model.change(name, None, None);
    if expected == Outcome::Extended {
        let allocated = model.ledgers[name].allocated;
        let plan = model.plans.entry(name.clone()).or_default();
        let before = plan.windows.len();
        let sets_limits = matches!(planned, Planned::Limits(_));
        apply(plan, planned, allocated);
        if sets_limits {
            model.periods.set_limits(name, before, plan.windows.len());
        }
    }
    (found, expected)
}

fn apply(plan: &mut Plan, planned: Planned, allocated: i128) {
    match planned {
        Planned::Period(None) => plan.period = None,
        Planned::Period(Some((renewed, [_, _, policy], carry))) => {
            let regular = (allocated - plan.increased()).max(0);
            let renewed = renewed.map_or(regular, i128::from);
            let carried_max = match RolloverPolicy::ALL[policy] {
                RolloverPolicy::None => 0,
                RolloverPolicy::CarryForward => carry.unwrap_or(i64::MAX).into(),
                RolloverPolicy::CapAtAllocated => renewed,
            };
            plan.period = Some((renewed, carried_max));
        }
        Planned::Limits(amounts) => {
            let used = |at: usize| plan.windows.get(at).map_or(0, |(_, used)| *used);
            let limits = amounts.iter().enumerate();
            plan.windows = limits
                .map(|(at, limit)| ((*limit).into(), used(at)))
                .collect();
        }
        Planned::Observe(observes) => plan.observes = observes,
        Planned::Increase(_) | Planned::EndIncrease(_) => unreachable!("no PATCH"),
    }
}

async fn increase(
    fixture: &LedgerFixture,
    model: &mut Model,
    name: &Name,
    amount: i64,
) -> (Outcome, Outcome) {
    let new = BudgetIncreaseRequest {
        amount: Amount::new(name.2, amount).expect("not negative"),
        until: None,
        lasting: Duration::parse("P30D"),
        reason: "a peak".to_owned(),
        idempotency_key: None,
    };
    let admin = Admin::new(fixture.store.clone(), Dialect::Service);
    let (request, place) = (ask(), scope(&name.1));
    let made = admin
        .increase_budget(&admin_key(), (&place, name.2), &new, &request.request())
        .await;
    let id = made.as_ref().ok().map(|(made, _)| made.increase_id.clone());
    let expected = model.increase(name, id.unwrap_or_default(), amount.into());
    (response(made), expected)
}

async fn end(
    fixture: &LedgerFixture,
    model: &mut Model,
    name: &Name,
    which: usize,
) -> (Outcome, Outcome) {
    let increases = model.plans.get(name).map(|plan| plan.increases.as_slice());
    let increases = increases.unwrap_or_default();
    let id = increases.get(which % increases.len().max(1));
    let id = id.map_or_else(|| "inc_none".to_owned(), |(id, _)| id.clone());
    let admin = Admin::new(fixture.store.clone(), Dialect::Service);
    let (request, place) = (ask(), scope(&name.1));
    let ended = admin
        .end_increase(&admin_key(), (&place, name.2), &id, &request.request())
        .await;
    (response(ended), model.end_increase(name, &id))
}

impl Model {
    fn increase(&mut self, name: &Name, id: String, amount: i128) -> Outcome {
        if let Some(refused) = self.unfundable(name) {
            return refused;
        }
        let plan = self.plans.entry(name.clone()).or_default();
        if plan.increases.len() >= INCREASES_MAX {
            return Outcome::Refused("TooMany");
        }
        plan.increases.push((id, amount));
        self.reallocate(name, amount)
    }

    fn end_increase(&mut self, name: &Name, id: &str) -> Outcome {
        if let Some(refused) = self.unfundable(name) {
            return refused;
        }
        let plan = self.plans.entry(name.clone()).or_default();
        let Some(at) = plan.increases.iter().position(|(known, _)| known == id) else {
            return Outcome::Refused("IncreaseNotFound");
        };
        let amount = plan.increases.remove(at).1;
        self.reallocate(name, -amount)
    }

    /// Moves what is allocated, or the last increase was none.
    fn reallocate(&mut self, name: &Name, by: i128) -> Outcome {
        let before = self.ledgers[name];
        let mut after = before;
        after.allocated = (before.allocated + by).max(0);
        let fits = |value: i128| i64::try_from(value).is_ok();
        if !fits(after.allocated) || !fits(after.remaining()) {
            self.plans.get_mut(name).expect("a plan").increases.pop();
            return Outcome::Refused("OutOfRange");
        }
        after.over = after.debt > after.limit;
        if !after.over {
            self.charged_over.remove(name);
        }
        self.ledgers.insert(name.clone(), after);
        self.funded(name, before);
        Outcome::Extended
    }

    /// Why a ledger is not increased; it has turned otherwise.
    fn unfundable(&mut self, name: &Name) -> Option<Outcome> {
        let refused = self.unchangeable(name);
        let frozen = || {
            self.frozen
                .contains(name)
                .then_some(Outcome::Refused("BudgetFrozen"))
        };
        let refused = refused.or_else(frozen);
        if refused.is_none() {
            self.turn(std::slice::from_ref(name));
        }
        refused
    }
}
