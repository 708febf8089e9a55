//! The steps of a history: how they are drawn, and how one is taken on both sides.

use budget_authority::domain::action::Action;
use budget_authority::domain::amount::{Amount, Unit};
use budget_authority::domain::budget::Balance;
use budget_authority::domain::ids::{IdempotencyKey, ReservationId};
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::PayloadHash;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::refusal::Refusal;
use budget_authority::domain::scope::{Level, SegmentFilter};
use budget_authority::domain::subject::Subject;
use budget_authority::ledger::{
    BalanceQuery, Commit, Decide, Decision, Extend, LedgerError, Post, Release, Reserve, Reserved,
};
use budget_authority::store::expire::expire_tenant;
use proptest::prelude::*;

use super::pure::{Book, Model, Said};
use crate::harness::world::{Start, World};

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
    Lapse {
        which: usize,
    },
    Sweep {
        tenant: usize,
    },
}

const PLACES: [&[(Level, &str)]; 5] = [
    &[],
    &[(Level::Workspace, "prod")],
    &[(Level::Workspace, "prod"), (Level::Agent, "bot")],
    &[(Level::Agent, "bot")],
    &[(Level::App, "chat"), (Level::Toolset, "web.search")],
];
const UNITS: [Unit; 2] = [Unit::Tokens, Unit::Credits];

/// Amounts of every size, many of them small enough to meet.
fn amount() -> impl Strategy<Value = i64> {
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

/// What ledgers begin with: often so little that a history of small amounts meets the end of it.
fn allocation() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 40..200i64, 1 => amount()]
}

fn limit() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(0i64), 3 => 1..120i64, 1 => amount()]
}

/// A history: some ledgers first, then anything.
pub fn history() -> impl Strategy<Value = Vec<Step>> {
    let open = || {
        (
            0..2usize,
            0..5usize,
            prop_oneof![4 => Just(0usize), 1 => Just(1usize)],
            allocation(),
            limit(),
        )
            .prop_map(|(tenant, place, unit, allocated, limit)| Step::Open {
                tenant,
                place,
                unit,
                allocated,
                limit,
            })
    };
    let some = prop::collection::vec(open(), 2..6);
    let place = || {
        (
            0..2usize,
            0..5usize,
            prop_oneof![4 => Just(0usize), 1 => Just(1usize)],
        )
    };
    let step = prop_oneof![
        6 => (place(), amount(), 0..3usize, 0..12usize, prop::bool::weighted(0.1)).prop_map(
            |((tenant, place, unit), amount, policy, key, dry)| Step::Reserve { tenant, place, unit, amount, policy, key, dry }),
        2 => (place(), amount(), 0..8usize).prop_map(|((tenant, place, unit), amount, key)| Step::Decide { tenant, place, unit, amount, key }),
        6 => (0..16usize, prop_oneof![9 => Just(0usize), 1 => Just(1usize)], amount(), 0..6usize).prop_map(
            |(which, unit, actual, key)| Step::Commit { which, unit, actual, key }),
        2 => (0..16usize, 0..6usize).prop_map(|(which, key)| Step::Release { which, key }),
        2 => (0..16usize, 0..14usize).prop_map(|(which, key)| Step::Extend { which, key }),
        3 => (place(), amount(), 0..3usize, 0..12usize).prop_map(
            |((tenant, place, unit), actual, policy, key)| Step::Post { tenant, place, unit, actual, policy, key }),
        2 => (0..16usize).prop_map(|which| Step::Lapse { which }),
        1 => (0..2usize).prop_map(|tenant| Step::Sweep { tenant }),
        1 => open(),
    ];
    (some, prop::collection::vec(step, 1..60)).prop_map(|(mut steps, more)| {
        steps.extend(more);
        steps
    })
}

fn subject(world: &World, tenant: usize, place: usize) -> (Subject, String) {
    let name = world.callers[tenant].tenant.as_str().to_owned();
    let values = std::iter::once((Level::Tenant, name)).chain(
        PLACES[place]
            .iter()
            .map(|(level, value)| (*level, (*value).to_owned())),
    );
    let path: Vec<String> = values
        .clone()
        .map(|(level, value)| format!("{level}:{value}"))
        .collect();
    (
        Subject::from_values(values).expect("a subject"),
        path.join("/"),
    )
}

fn action() -> Action {
    Action {
        kind: "llm.completion".to_owned(),
        name: "model".to_owned(),
        tags: None,
    }
}

fn key(number: usize) -> IdempotencyKey {
    IdempotencyKey::parse(&format!("key-{number}")).expect("a key")
}

fn hashed(payload: &str) -> PayloadHash {
    PayloadHash::of_body(&Json::String(payload.to_owned()))
}

fn amount_of(unit: Unit, value: i64) -> Amount {
    Amount::new(unit, value).expect("not negative")
}

fn books(balances: &[Balance]) -> Vec<(String, Book)> {
    let book = |balance: &Balance| Book {
        allocated: balance.allocated.into(),
        spent: balance.spent.into(),
        reserved: balance.reserved.into(),
        debt: balance.debt.into(),
        limit: balance.overdraft_limit.into(),
        over: balance.is_over_limit,
    };
    balances
        .iter()
        .map(|balance| (balance.scope.as_str().to_owned(), book(balance)))
        .collect()
}

fn refused(error: LedgerError) -> Said {
    match error {
        LedgerError::Refused(Refusal::Denied { denial, .. }) => Said::Deny(denial.as_str()),
        LedgerError::Refused(Refusal::UnitMismatch { .. }) => Said::Refused("UnitMismatch"),
        LedgerError::Refused(Refusal::BudgetNotFound) => Said::Refused("BudgetNotFound"),
        LedgerError::Refused(Refusal::IdempotencyMismatch) => Said::Refused("IdempotencyMismatch"),
        LedgerError::Refused(Refusal::Expired) => Said::Refused("Expired"),
        LedgerError::Refused(Refusal::Finalized(_)) => Said::Refused("Finalized"),
        LedgerError::Refused(Refusal::OverageRejected { .. }) => Said::Refused("OverageRejected"),
        LedgerError::Refused(Refusal::TooManyExtensions(_)) => Said::Refused("TooManyExtensions"),
        other => panic!("{other:?}"),
    }
}

fn charged(value: i64, balances: &[Balance]) -> Said {
    Said::Done {
        charged: value.into(),
        books: books(balances),
    }
}

/// Takes a step on both sides and compares reply and ledgers.
pub async fn run(
    world: &World,
    model: &mut Model,
    step: &Step,
    number: usize,
) -> Result<(), String> {
    let (said, expected) = match step.clone() {
        Step::Open {
            tenant,
            place,
            unit,
            allocated,
            limit,
        } => {
            let (_, path) = subject(world, tenant, place);
            let unit = UNITS[unit];
            let name = (tenant, path.clone(), unit);
            if model.books.contains_key(&name) {
                return Ok(());
            }
            world
                .seed(
                    tenant,
                    &Start {
                        scope: path,
                        unit,
                        allocated,
                        limit,
                    },
                )
                .await;
            let book = Book {
                allocated: allocated.into(),
                limit: limit.into(),
                ..Book::default()
            };
            model.books.insert(name, book);
            (Said::Extended, Said::Extended)
        }
        Step::Reserve {
            tenant,
            place,
            unit,
            amount,
            policy,
            key: key_number,
            dry,
        } => {
            let (who, path) = subject(world, tenant, place);
            let (unit, policy) = (UNITS[unit], OveragePolicy::ALL[policy]);
            let hash = format!("{path} {unit} {amount} {policy:?} {dry}");
            let request = Reserve {
                idempotency_key: key(key_number),
                payload_hash: hashed(&hash),
                subject: who,
                action: action(),
                estimate: amount_of(unit, amount),
                ttl_ms: None,
                grace_ms: 5_000,
                overage_policy: Some(policy),
                dry_run: dry,
                metadata: None,
            };
            let answer = world
                .ledger
                .reserve(&world.callers[tenant], &request, &world.cause(tenant))
                .await;
            let said = match answer {
                Ok(Reserved::Held { balances, .. }) => charged(0, &balances),
                Ok(Reserved::DryRun {
                    decision: Decision::Allow { balances, .. },
                    ..
                }) => charged(0, &balances),
                Ok(Reserved::DryRun {
                    decision: Decision::Deny(denial),
                    ..
                }) => Said::Deny(denial.as_str()),
                Err(error) => refused(error),
            };
            let entry = (tenant, "reserve", format!("key-{key_number}"));
            let expected = match model.answered.get(&entry) {
                Some((first, answer)) if *first == hash => answer.clone(),
                Some(_) => Said::Refused("IdempotencyMismatch"),
                None if dry => model.decide(tenant, &path, unit, amount.into()),
                None => model.reserve(tenant, &path, unit, amount.into(), policy),
            };
            let kept =
                matches!(expected, Said::Done { .. }) || (dry && matches!(expected, Said::Deny(_)));
            if kept && !model.answered.contains_key(&entry) {
                if !dry {
                    model
                        .reservation_of
                        .insert((tenant, format!("key-{key_number}")), model.held.len() - 1);
                }
                model.answered.insert(entry, (hash, expected.clone()));
            }
            (said, expected)
        }
        Step::Decide {
            tenant,
            place,
            unit,
            amount,
            key: key_number,
        } => {
            let (who, path) = subject(world, tenant, place);
            let unit = UNITS[unit];
            let hash = format!("{path} {unit} {amount}");
            let request = Decide {
                idempotency_key: key(key_number),
                payload_hash: hashed(&hash),
                subject: who,
                action: action(),
                estimate: amount_of(unit, amount),
            };
            let answer = world
                .ledger
                .decide(&world.callers[tenant], &request, &world.cause(tenant))
                .await;
            let said = match answer.map(|decided| decided.decision) {
                Ok(Decision::Allow { .. }) => Said::Extended,
                Ok(Decision::Deny(denial)) => Said::Deny(denial.as_str()),
                Err(error) => refused(error),
            };
            let entry = (tenant, "decide", format!("key-{key_number}"));
            let expected = match model.answered.get(&entry) {
                Some((first, answer)) if *first == hash => answer.clone(),
                Some(_) => Said::Refused("IdempotencyMismatch"),
                None => match model.decide(tenant, &path, unit, amount.into()) {
                    Said::Done { .. } => Said::Extended,
                    other => other,
                },
            };
            if !matches!(expected, Said::Refused(_)) {
                model
                    .answered
                    .entry(entry)
                    .or_insert((hash, expected.clone()));
            }
            (said, expected)
        }
        Step::Post {
            tenant,
            place,
            unit,
            actual,
            policy,
            key: key_number,
        } => {
            let (who, path) = subject(world, tenant, place);
            let (unit, policy) = (UNITS[unit], OveragePolicy::ALL[policy]);
            let hash = format!("{path} {unit} {actual} {policy:?}");
            let request = Post {
                idempotency_key: key(key_number),
                payload_hash: hashed(&hash),
                subject: who,
                action: action(),
                actual: amount_of(unit, actual),
                overage_policy: Some(policy),
                metrics: None,
                client_time_ms: None,
                metadata: None,
            };
            let answer = world
                .ledger
                .post(&world.callers[tenant], &request, &world.cause(tenant))
                .await;
            let said = match answer {
                Ok(posted) => charged(posted.charged, &posted.balances),
                Err(error) => refused(error),
            };
            let entry = (tenant, "post", format!("key-{key_number}"));
            let expected = match model.answered.get(&entry) {
                Some((first, answer)) if *first == hash => answer.clone(),
                Some(_) => Said::Refused("IdempotencyMismatch"),
                None => model.post(tenant, &path, unit, actual.into(), policy),
            };
            if matches!(expected, Said::Done { .. }) {
                model
                    .answered
                    .entry(entry)
                    .or_insert((hash, expected.clone()));
            }
            (said, expected)
        }
        Step::Commit {
            which,
            unit,
            actual,
            key: key_number,
        } => {
            let Some((index, tenant, id)) = pick(world, model, which).await else {
                return Ok(());
            };
            let held_unit = model.held[index].unit;
            let unit = if unit == 0 {
                held_unit
            } else {
                UNITS[usize::from(held_unit == UNITS[0])]
            };
            let hash = format!("commit {unit} {actual}");
            let request = Commit {
                reservation_id: id,
                idempotency_key: key(key_number),
                payload_hash: hashed(&hash),
                actual: amount_of(unit, actual),
                metrics: None,
                metadata: None,
            };
            let answer = world
                .ledger
                .commit(&world.callers[tenant], &request, &world.cause(tenant))
                .await;
            let said = match answer {
                Ok(committed) => charged(committed.charged, &committed.balances),
                Err(error) => refused(error),
            };
            (
                said,
                model.commit(
                    index,
                    unit,
                    actual.into(),
                    &format!("key-{key_number}"),
                    &hash,
                ),
            )
        }
        Step::Release {
            which,
            key: key_number,
        } => {
            let Some((index, tenant, id)) = pick(world, model, which).await else {
                return Ok(());
            };
            let request = Release {
                reservation_id: id,
                idempotency_key: key(key_number),
                payload_hash: hashed("release"),
                reason: None,
            };
            let caller =
                budget_authority::domain::caller::Caller::Tenant(world.callers[tenant].clone());
            let answer = world
                .ledger
                .release(&caller, &request, &world.cause(tenant))
                .await;
            let said = match answer {
                Ok(released) => charged(released.released, &released.balances),
                Err(error) => refused(error),
            };
            (
                said,
                model.release(index, &format!("key-{key_number}"), "release"),
            )
        }
        Step::Extend {
            which,
            key: key_number,
        } => {
            let Some((index, tenant, id)) = pick(world, model, which).await else {
                return Ok(());
            };
            let request = Extend {
                reservation_id: id,
                idempotency_key: key(key_number),
                payload_hash: hashed("extend"),
                extend_by_ms: 1_000,
                metadata: None,
            };
            let said = match world.ledger.extend(&world.callers[tenant], &request).await {
                Ok(_) => Said::Extended,
                Err(error) => refused(error),
            };
            (said, model.extend(index, &format!("key-{key_number}")))
        }
        Step::Lapse { which } => {
            let Some((index, tenant, id)) = pick(world, model, which).await else {
                return Ok(());
            };
            lapse(world, tenant, &id).await;
            model.held[index].dead = true;
            (Said::Extended, Said::Extended)
        }
        Step::Sweep { tenant } => {
            let (name, now) = (
                &world.callers[tenant].tenant,
                world.store.clock().now_ms() + 1_000,
            );
            let cause = budget_authority::domain::cause::Cause::sweep().lines();
            expire_tenant(&world.store, name, &cause, now)
                .await
                .map_err(|error| error.to_string())?;
            model.sweep(tenant);
            (Said::Extended, Said::Extended)
        }
    };
    if said != expected {
        return Err(format!("answered {said:?}, the model says {expected:?}"));
    }
    compare(world, model)
        .await
        .map_err(|difference| format!("after step {number}: {difference}"))
}

/// The reservation that a selector means: its place in the model, tenant and id.
async fn pick(world: &World, model: &Model, which: usize) -> Option<(usize, usize, ReservationId)> {
    let mut named: Vec<_> = model.reservation_of.iter().collect();
    named.sort_by_key(|(_, index)| **index);
    let ((tenant, key), index) = *named.get(which % named.len().max(1))?;
    let secret = world.store.secret().await.expect("the deployment");
    let key = IdempotencyKey::parse(key).expect("a key");
    let id = ReservationId::derive(secret, &world.callers[*tenant].tenant, &key);
    Some((*index, *tenant, id))
}

/// Moves an active reservation's deadline into the past, as if its time had gone by.
async fn lapse(world: &World, tenant: usize, id: &ReservationId) {
    let caller = &world.callers[tenant];
    let keys = world.store.keys();
    let record = keys.reservation(caller.partition, id.as_str());
    world
        .redis(&["HSET", &record, "expires_at_ms", "1000", "grace_ms", "0"])
        .await;
    let due = keys.due(caller.partition, caller.tenant.as_str());
    world
        .redis(&["ZADD", &due, "XX", "1000", id.as_str()])
        .await;
}

/// Every ledger, as balances show it.
async fn compare(world: &World, model: &Model) -> Result<(), String> {
    for (tenant, caller) in world.callers.iter().enumerate() {
        let query = BalanceQuery {
            segments: SegmentFilter::new([(Level::Tenant, caller.tenant.as_str().to_owned())]),
            limit: 100,
            after: None,
        };
        let page = world
            .ledger
            .balances(caller, &query)
            .await
            .map_err(|error| error.to_string())?;
        let mut expected: Vec<_> = model
            .books
            .iter()
            .filter(|((of, _, _), _)| *of == tenant)
            .map(|((_, scope, unit), book)| ((scope.clone(), *unit), *book))
            .collect();
        expected.sort_by(|(a, _), (b, _)| a.cmp(b));
        let units = page.balances.iter().map(|balance| balance.unit);
        let found: Vec<_> = books(&page.balances)
            .into_iter()
            .zip(units)
            .map(|((scope, book), unit)| ((scope, unit), book))
            .collect();
        if found != expected {
            return Err(format!("ledgers {found:?}, the model says {expected:?}"));
        }
    }
    Ok(())
}
