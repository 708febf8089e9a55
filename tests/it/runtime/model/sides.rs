//! Shared by model and service: parts of requests, reduced replies, and the comparison.

use std::collections::HashMap;

use budget_authority::domain::amount::{Amount, Unit};
use budget_authority::domain::budget::Balance;
use budget_authority::domain::ids::{IdempotencyKey, PostId, ReservationId};
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::{HashedRequest, PayloadHash};
use budget_authority::domain::refusal::{
    AccessRefusal, Refusal, ReservationRefusal, TenantRefusal,
};
use budget_authority::domain::scope::{Level, SegmentFilter};
use budget_authority::domain::subject::{Action, Subject};
use budget_authority::ledger::{BalanceFilter, BalanceQuery};
use budget_authority::listing::OneOrder;
use budget_authority::store::StoreError;

use redis::Value;

use super::draw::PLACES;
use super::pure::{Model, ModelLedger, Outcome};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::redis_fixture::command;

pub fn subject(fixture: &LedgerFixture, tenant: usize, place: usize) -> (Subject, String) {
    let name = fixture.callers[tenant].tenant.as_str().to_owned();
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

/// The action of requests about a scope. Neither kind nor name is a single word.
pub fn action(path: &str) -> Action {
    Action {
        kind: "llm completion".into(),
        name: format!("model {}", path.len() % 2).into(),
        tags: None,
    }
}

pub fn key(number: usize) -> IdempotencyKey {
    IdempotencyKey::parse(&format!("key-{number}")).expect("a key")
}

/// A request whose digest is that of a text.
pub fn hashed<T>(request: T, payload: &str) -> HashedRequest<T> {
    HashedRequest {
        request,
        payload_hash: PayloadHash::of_body(&Json::from(payload)),
        attested: None,
    }
}

pub fn amount_of(unit: Unit, value: i64) -> Amount {
    Amount::new(unit, value).expect("not negative")
}

pub fn ledgers(balances: &[Balance]) -> Vec<(String, ModelLedger)> {
    let ledger = |balance: &Balance| ModelLedger {
        allocated: balance.allocated.value().into(),
        spent: balance.spent.value().into(),
        reserved: balance.reserved.value().into(),
        debt: balance.debt.map_or(0, Amount::value).into(),
        limit: balance.overdraft_limit.map_or(0, Amount::value).into(),
        over: balance.is_over_limit,
    };
    balances
        .iter()
        .map(|balance| (balance.scope_path.as_str().to_owned(), ledger(balance)))
        .collect()
}

pub fn refused(error: StoreError) -> Outcome {
    use ReservationRefusal as R;
    let (StoreError::Refusal(refusal) | StoreError::Attested(refusal, _)) = error else {
        panic!("{error:?}");
    };
    Outcome::Refused(match refusal {
        Refusal::Reservation(refusal) => match refusal {
            R::Denied {
                denial,
                remaining: Some(_),
                ..
            } => return Outcome::Deny(denial.as_str()),
            R::Denied {
                remaining: None, ..
            } => "Inactive",
            R::UnitMismatch { .. } => "UnitMismatch",
            R::BudgetNotFound(_) => "BudgetNotFound",
            R::Expired(_) => "Expired",
            R::Finalized { .. } => "Finalized",
            R::OverageRejected { .. } => "OverageRejected",
            R::TooManyExtensions(_) => "TooManyExtensions",
            R::NotCharged(_) => "NotCharged",
            R::RefundTooLarge { .. } => "RefundTooLarge",
            other => panic!("{other:?}"),
        },
        Refusal::Access(AccessRefusal::IdempotencyMismatch) => "IdempotencyMismatch",
        Refusal::Tenant(TenantRefusal::Closed(_)) => "TenantClosed",
        Refusal::Tenant(TenantRefusal::Suspended(_)) => "TenantSuspended",
        other => panic!("{other:?}"),
    })
}

pub fn charged(value: i64, balances: &[Balance]) -> Outcome {
    Outcome::Done {
        charged: value.into(),
        ledgers: ledgers(balances),
    }
}

/// The reservation that a selector means: its place in the model, tenant and id.
pub async fn pick(
    fixture: &LedgerFixture,
    model: &Model,
    which: usize,
) -> Option<(usize, usize, ReservationId)> {
    let (index, tenant, key) = nth(&model.reservation_of, which)?;
    let secret = fixture.store.secret().await.expect("the deployment");
    let id = ReservationId::derive(secret, &fixture.callers[tenant].tenant, &key);
    Some((index, tenant, id))
}

/// The same of a usage event.
pub async fn pick_event(
    fixture: &LedgerFixture,
    model: &Model,
    which: usize,
) -> Option<(usize, usize, PostId)> {
    let (index, tenant, key) = nth(&model.event_of, which)?;
    let secret = fixture.store.secret().await.expect("the deployment");
    let id = PostId::derive(secret, &fixture.callers[tenant].tenant, &key);
    Some((index, tenant, id))
}

fn nth(
    of: &HashMap<(usize, String), usize>,
    which: usize,
) -> Option<(usize, usize, IdempotencyKey)> {
    let mut named: Vec<_> = of.iter().collect();
    named.sort_by_key(|(_, index)| **index);
    let ((tenant, key), index) = *named.get(which % named.len().max(1))?;
    Some((*index, *tenant, IdempotencyKey::parse(key).expect("a key")))
}

/// Moves an active reservation's deadline into the past.
pub async fn lapse(fixture: &LedgerFixture, tenant: usize, id: &ReservationId) {
    let caller = &fixture.callers[tenant];
    let keys = fixture.store.keys();
    let record = keys.reservation(caller.partition, id.as_str());
    fixture
        .run::<()>(&["HSET", &record, "expires_at_ms", "1000"])
        .await;
    let due = keys.due(caller.partition, caller.tenant.as_str());
    fixture
        .run::<()>(&["ZADD", &due, "XX", "6000", id.as_str()])
        .await;
    let tenants = keys.due_tenants(caller.partition);
    let name = caller.tenant.as_str();
    fixture
        .run::<()>(&["ZADD", &tenants, "XX", "LT", "6000", name])
        .await;
}

/// Every ledger, as balances show it.
pub async fn compare(fixture: &LedgerFixture, model: &Model) -> Result<(), String> {
    for (tenant, caller) in fixture.callers.iter().enumerate() {
        let level = (Level::Tenant, caller.tenant.as_str().to_owned());
        let filter = BalanceFilter {
            segments: SegmentFilter::new([level]),
            tenant: None,
        };
        let query = BalanceQuery::new(filter, OneOrder::Only, false, 100);
        let page = fixture
            .ledger
            .balances(caller, &query)
            .await
            .map_err(|error| error.to_string())?;
        let mut expected: Vec<_> = model
            .ledgers
            .iter()
            .filter(|((of, _, _), _)| *of == tenant)
            .map(|(name, _)| ((name.1.clone(), name.2), model.after_turn(name)))
            .collect();
        expected.sort_by(|(a, _), (b, _)| a.cmp(b));
        let units = page.rows.iter().map(|balance| balance.spent.unit());
        let found: Vec<_> = ledgers(&page.rows)
            .into_iter()
            .zip(units)
            .map(|((scope, ledger), unit)| ((scope, unit), ledger))
            .collect();
        if found != expected {
            return Err(format!("ledgers {found:?}, the model says {expected:?}"));
        }
    }
    compare_causes(fixture, model).await
}

/// The ledgers that name the charge that took them over their limit.
async fn compare_causes(fixture: &LedgerFixture, model: &Model) -> Result<(), String> {
    let names: Vec<_> = model.ledgers.keys().collect();
    let keys = names.iter().map(|(tenant, scope, unit)| {
        let caller = &fixture.callers[*tenant];
        let keys = fixture.store.keys();
        keys.budget(
            caller.partition,
            caller.tenant.as_str(),
            unit.as_str(),
            scope,
        )
    });
    let commands: Vec<_> = keys
        .map(|key| command(&["HEXISTS", &key, "over_limit_by"]))
        .collect();
    let found = fixture.run_all(&commands).await;
    for (name, found) in names.into_iter().zip(found) {
        let expected = model.charged_over.contains(name);
        if found != Value::Int(expected.into()) {
            return Err(format!(
                "{name:?} names a charge: {found:?}, the model says {expected}"
            ));
        }
    }
    Ok(())
}

/// Every enclosing scope of a path, root first, itself last.
pub fn enclosing(path: &str) -> Vec<String> {
    let ends = path
        .match_indices('/')
        .map(|(end, _)| end)
        .chain([path.len()]);
    ends.map(|end| path[..end].to_owned()).collect()
}
