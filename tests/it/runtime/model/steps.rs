//! Takes one step on both sides.

use budget_authority::domain::cause::Cause;
use budget_authority::store::runtime::expire::expire_tenant;

use super::alerts::{age, compare_alerts};
use super::draw::{Step, UNITS};
use super::operator_steps;
use super::policies::govern;
use super::pure::{Model, ModelLedger, Outcome};
use super::requests::Request;
use super::sides::{compare, lapse, pick, subject};
use super::{plan_steps, plan_time, refund, usage};
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
            plan_steps::complete(fixture, &name).await;
            let ledger = ModelLedger {
                allocated: allocated.into(),
                limit: limit.into(),
                ..ModelLedger::default()
            };
            model.ledgers.insert(name, ledger);
            (Outcome::Extended, Outcome::Extended)
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
        Step::Plan { .. } | Step::Pass { .. } => {
            let taken = plan_steps::take(fixture, model, step).await;
            let Some(outcomes) = taken else {
                return Ok(());
            };
            outcomes
        }
        Step::Refund {
            event,
            which,
            amount,
            key,
        } => {
            let taken = refund::take(fixture, model, event, (which, amount, key)).await;
            let Some(outcomes) = taken else {
                return Ok(());
            };
            outcomes
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
        Step::Reserve { .. }
        | Step::Decide { .. }
        | Step::Post { .. }
        | Step::Commit { .. }
        | Step::Release { .. }
        | Step::Extend { .. } => {
            let Some(request) = Request::of(fixture, model, step).await else {
                return Ok(());
            };
            (request.respond().await, request.expected(model))
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
    usage::compare(fixture, model).await.map_err(after)?;
    plan_time::compare(fixture, model).await.map_err(after)?;
    compare_alerts(fixture, model).await.map_err(after)
}
