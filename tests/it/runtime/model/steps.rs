//! Takes one step on both sides.

use budget_authority::domain::caller::Caller;
use budget_authority::domain::cause::Cause;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::ledger::{
    Commit, Decide, Decision, Extend, Post, Release, Reserve, Reserved,
};
use budget_authority::store::runtime::expire::expire_tenant;

use super::draw::{Step, UNITS};
use super::operator_steps;
use super::policies::govern;
use super::pure::{Book, Model, Said};
use super::sides::{
    action, amount_of, charged, compare, hashed, key, lapse, pick, refused, subject,
};
use crate::harness::world::{Start, World};

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
            if model.books.contains_key(&name) || model.closed.contains(&tenant) {
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
            let (unit, policy) = (UNITS[unit], OveragePolicy::ALL.get(policy).copied());
            let hash = format!("{path} {unit} {amount} {policy:?} {dry}");
            let request = Reserve {
                idempotency_key: key(key_number),
                payload_hash: hashed(&hash),
                subject: who,
                action: action(),
                estimate: amount_of(unit, amount),
                ttl_ms: None,
                grace_ms: 5_000,
                overage_policy: policy,
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
            let (unit, policy) = (UNITS[unit], OveragePolicy::ALL.get(policy).copied());
            let hash = format!("{path} {unit} {actual} {policy:?}");
            let request = Post {
                idempotency_key: key(key_number),
                payload_hash: hashed(&hash),
                subject: who,
                action: action(),
                actual: amount_of(unit, actual),
                overage_policy: policy,
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
            let caller = Caller::Tenant(world.callers[tenant].clone());
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
        Step::Fund { .. }
        | Step::Change { .. }
        | Step::Freeze { .. }
        | Step::Settle { .. }
        | Step::Close { .. } => operator_steps::take(world, model, step).await,
        Step::Govern { tenant, name, rule } => {
            // A closed tenant's policies change no more, and a suspended one gets none; admin_policy_order.rs has the refusals.
            let known = model.policies.contains_key(&(tenant, name));
            if !model.closed.contains(&tenant) && (known || !model.suspended.contains(&tenant)) {
                govern(world, model, tenant, name, rule).await;
            }
            (Said::Extended, Said::Extended)
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
            let cause = Cause::sweep().lines();
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
