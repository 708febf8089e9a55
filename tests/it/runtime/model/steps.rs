//! Takes one step on both sides.

use budget_authority::domain::amount::Amount;
use budget_authority::domain::caller::Caller;
use budget_authority::domain::cause::Cause;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::refusal::Denial;
use budget_authority::domain::reservation::{
    CommitRequest, DecisionRequest, ReleaseRequest, ReservationCreateRequest,
};
use budget_authority::ledger::{EventCreateRequest, ReservationExtendRequest};
use budget_authority::store::runtime::expire::expire_tenant;

use super::alerts::{age, compare_alerts};
use super::draw::{Step, UNITS};
use super::operator_steps;
use super::policies::govern;
use super::pure::{Model, ModelLedger, Outcome};
use super::sides::{
    action, amount_of, charged, compare, hashed, key, lapse, pick, refused, subject,
};
use crate::harness::ledger_fixture::LedgerFixture;

/// Takes a step on both sides and compares reply and ledgers.
pub async fn run(
    fixture: &LedgerFixture,
    model: &mut Model,
    step: &Step,
    number: usize,
) -> Result<(), String> {
    let (response, expected) = match step.clone() {
        Step::Open {
            tenant,
            place,
            unit,
            allocated,
            limit,
        } => {
            let (_, path) = subject(fixture, tenant, place);
            let unit = UNITS[unit];
            let name = (tenant, path.clone(), unit);
            if model.ledgers.contains_key(&name) || model.closed.contains(&tenant) {
                return Ok(());
            }
            fixture.seed(tenant, &path, unit, allocated, limit).await;
            let ledger = ModelLedger {
                allocated: allocated.into(),
                limit: limit.into(),
                ..ModelLedger::default()
            };
            model.ledgers.insert(name, ledger);
            (Outcome::Extended, Outcome::Extended)
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
            let (who, path) = subject(fixture, tenant, place);
            let (unit, policy) = (UNITS[unit], OveragePolicy::ALL.get(policy).copied());
            let hash = format!("{path} {unit} {amount} {policy:?} {dry}");
            let request = ReservationCreateRequest {
                idempotency_key: key(key_number),
                subject: who,
                action: action(),
                estimate: amount_of(unit, amount),
                ttl_ms: None,
                grace_period_ms: 5_000,
                overage_policy: policy,
                dry_run: dry,
                metadata: None,
                observe_mode: None,
            };
            let request = hashed(request, &hash);
            let result = fixture
                .ledger
                .reserve(&fixture.callers[tenant], &request, &fixture.cause(tenant))
                .await;
            let response = match result {
                Ok(reserved) => match reserved.reason_code {
                    Some(reason) => denied(&reason),
                    None => charged(0, &reserved.balances.expect("allowed")),
                },
                Err(error) => refused(error),
            };
            let entry = (tenant, "reserve", format!("key-{key_number}"));
            let expected = match model.answered.get(&entry) {
                Some((first, stored)) if *first == hash => stored.clone(),
                Some(_) => Outcome::Refused("IdempotencyMismatch"),
                None if dry => model.decide(tenant, &path, unit, amount.into()),
                None => model.reserve(tenant, &path, unit, amount.into(), policy),
            };
            let kept = matches!(expected, Outcome::Done { .. })
                || (dry && matches!(expected, Outcome::Deny(_)));
            if kept && !model.answered.contains_key(&entry) {
                if !dry {
                    model
                        .reservation_of
                        .insert((tenant, format!("key-{key_number}")), model.held.len() - 1);
                }
                model.answered.insert(entry, (hash, expected.clone()));
            }
            (response, expected)
        }
        Step::Decide {
            tenant,
            place,
            unit,
            amount,
            key: key_number,
        } => {
            let (who, path) = subject(fixture, tenant, place);
            let unit = UNITS[unit];
            let hash = format!("{path} {unit} {amount}");
            let request = DecisionRequest {
                idempotency_key: key(key_number),
                subject: who,
                action: action(),
                estimate: amount_of(unit, amount),
                metadata: None,
            };
            let request = hashed(request, &hash);
            let result = fixture
                .ledger
                .decide(&fixture.callers[tenant], &request, &fixture.cause(tenant))
                .await;
            let response = match result.map(|decided| decided.reason_code) {
                Ok(None) => Outcome::Extended,
                Ok(Some(reason)) => denied(&reason),
                Err(error) => refused(error),
            };
            let entry = (tenant, "decide", format!("key-{key_number}"));
            let expected = match model.answered.get(&entry) {
                Some((first, stored)) if *first == hash => stored.clone(),
                Some(_) => Outcome::Refused("IdempotencyMismatch"),
                None => match model.decide(tenant, &path, unit, amount.into()) {
                    Outcome::Done { .. } => Outcome::Extended,
                    other => other,
                },
            };
            if !matches!(expected, Outcome::Refused(_)) {
                model
                    .answered
                    .entry(entry)
                    .or_insert((hash, expected.clone()));
            }
            (response, expected)
        }
        Step::Post {
            tenant,
            place,
            unit,
            actual,
            policy,
            key: key_number,
        } => {
            let (who, path) = subject(fixture, tenant, place);
            let (unit, policy) = (UNITS[unit], OveragePolicy::ALL.get(policy).copied());
            let hash = format!("{path} {unit} {actual} {policy:?}");
            let request = EventCreateRequest {
                idempotency_key: key(key_number),
                subject: who,
                action: action(),
                actual: amount_of(unit, actual),
                overage_policy: policy,
                metrics: None,
                client_time_ms: None,
                metadata: None,
            };
            let request = hashed(request, &hash);
            let result = fixture
                .ledger
                .charge(&fixture.callers[tenant], &request, &fixture.cause(tenant))
                .await;
            let response = match result {
                Ok(posted) => {
                    let charged_value = posted.charged.map_or(actual, Amount::value);
                    charged(charged_value, &posted.balances)
                }
                Err(error) => refused(error),
            };
            let entry = (tenant, "post", format!("key-{key_number}"));
            let expected = match model.answered.get(&entry) {
                Some((first, stored)) if *first == hash => stored.clone(),
                Some(_) => Outcome::Refused("IdempotencyMismatch"),
                None => model.post(tenant, &path, unit, actual.into(), policy),
            };
            if matches!(expected, Outcome::Done { .. }) {
                model
                    .answered
                    .entry(entry)
                    .or_insert((hash, expected.clone()));
            }
            (response, expected)
        }
        Step::Commit {
            which,
            unit,
            actual,
            key: key_number,
        } => {
            let Some((index, tenant, id)) = pick(fixture, model, which).await else {
                return Ok(());
            };
            let held_unit = model.held[index].unit;
            let unit = if unit == 0 {
                held_unit
            } else {
                UNITS[usize::from(held_unit == UNITS[0])]
            };
            let hash = format!("commit {unit} {actual}");
            let request = CommitRequest {
                idempotency_key: key(key_number),
                actual: amount_of(unit, actual),
                metrics: None,
                metadata: None,
            };
            let request = hashed(request, &hash);
            let result = fixture
                .ledger
                .commit(
                    &fixture.callers[tenant],
                    &id,
                    &request,
                    &fixture.cause(tenant),
                )
                .await;
            let response = match result {
                Ok(committed) => charged(committed.charged.value(), &committed.balances),
                Err(error) => refused(error),
            };
            (
                response,
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
            let Some((index, tenant, id)) = pick(fixture, model, which).await else {
                return Ok(());
            };
            let request = ReleaseRequest {
                idempotency_key: key(key_number),
                reason: None,
            };
            let request = hashed(request, "release");
            let caller = Caller::Tenant(fixture.callers[tenant].clone());
            let result = fixture
                .ledger
                .release(&caller, &id, &request, &fixture.cause(tenant))
                .await;
            let response = match result {
                Ok(released) => charged(released.released.value(), &released.balances),
                Err(error) => refused(error),
            };
            (
                response,
                model.release(index, &format!("key-{key_number}"), "release"),
            )
        }
        Step::Extend {
            which,
            key: key_number,
        } => {
            let Some((index, tenant, id)) = pick(fixture, model, which).await else {
                return Ok(());
            };
            let request = ReservationExtendRequest {
                idempotency_key: key(key_number),
                extend_by_ms: 1_000,
                metadata: None,
            };
            let request = hashed(request, "extend");
            let response = match fixture
                .ledger
                .extend(&fixture.callers[tenant], &id, &request)
                .await
            {
                Ok(_) => Outcome::Extended,
                Err(error) => refused(error),
            };
            (response, model.extend(index, &format!("key-{key_number}")))
        }
        Step::Fund { .. }
        | Step::Change { .. }
        | Step::Freeze { .. }
        | Step::ChangeTenant { .. }
        | Step::Close { .. } => operator_steps::take(fixture, model, step).await,
        Step::Govern { tenant, name, rule } => {
            // A closed tenant's policies change no more, and a suspended one gets none; tests/it/admin/policies/order.rs has the refusals.
            let known = model.policies.contains_key(&(tenant, name));
            if !model.closed.contains(&tenant) && (known || !model.suspended.contains(&tenant)) {
                govern(fixture, model, tenant, name, rule).await;
            }
            (Outcome::Extended, Outcome::Extended)
        }
        Step::Lapse { which } => {
            let Some((index, tenant, id)) = pick(fixture, model, which).await else {
                return Ok(());
            };
            lapse(fixture, tenant, &id).await;
            model.held[index].dead = true;
            (Outcome::Extended, Outcome::Extended)
        }
        Step::Age { which, to_future } => {
            age(fixture, model, which, to_future).await;
            (Outcome::Extended, Outcome::Extended)
        }
        Step::Sweep { tenant } => {
            let (name, now) = (
                &fixture.callers[tenant].tenant,
                fixture.store.clock().now_ms() + 1_000,
            );
            let cause = Cause::sweep().lines();
            expire_tenant(&fixture.store, name, &cause, now)
                .await
                .map_err(|error| error.to_string())?;
            model.sweep(tenant);
            (Outcome::Extended, Outcome::Extended)
        }
    };
    if response != expected {
        return Err(format!(
            "answered {response:?}, the model says {expected:?}"
        ));
    }
    let after = |difference| format!("after step {number}: {difference}");
    compare(fixture, model).await.map_err(after)?;
    compare_alerts(fixture, model).await.map_err(after)
}

fn denied(reason_code: &str) -> Outcome {
    let denial = Denial::parse(reason_code).expect("a known reason");
    Outcome::Deny(denial.as_str())
}
