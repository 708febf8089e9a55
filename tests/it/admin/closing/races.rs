//! A close against all other requests at once: each either happened before it, and is part of what is closed, or was
//! refused. Nothing comes in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use budget_authority::admin::tenants::closing::CloseProgress;
use budget_authority::domain::amount::Unit;
use budget_authority::domain::budget::ledger::BudgetUpdateRequest;
use budget_authority::domain::budget::ledger::FundingOperation;
use budget_authority::domain::caller::Caller;
use budget_authority::domain::cause::Actor;
use budget_authority::domain::ids::{IdempotencyKey, ReservationId};
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::{HashedRequest, PayloadHash};
use budget_authority::domain::refusal::{AccessRefusal, BadKey, Refusal, TenantRefusal};
use budget_authority::domain::reservation::{CommitRequest, ReleaseRequest};
use budget_authority::ledger::ReservationExtendRequest;
use budget_authority::store::StoreError;
use tokio::task::JoinSet;

use crate::admin::closing::resume::reconcile;
use crate::harness::admin_fixture::{
    admin_key, ask, cause, closed, funding, new_budget, new_key, refusal, scope, tokens,
};
use crate::harness::eventually;
use crate::harness::tenant_fixture::TenantFixture;
use crate::harness::tenant_snapshot::TenantSnapshot;

const PLACES: [&str; 3] = ["/agent:a", "/agent:b", "/workspace:w"];

/// The granted requests of one worker.
#[derive(Default)]
struct Done {
    /// By place.
    charged: BTreeMap<&'static str, i64>,
    funded: BTreeMap<&'static str, i64>,
    reserved: Vec<ReservationId>,
    released: usize,
    committed: usize,
    granted: usize,
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).expect("a key")
}

fn hash() -> PayloadHash {
    PayloadHash::of_body(&Json::Null)
}

/// Whether it was granted; `None`: the tenant is closed. A key that the close has revoked counts as that.
fn on_ledger<T>(outcome: Result<T, StoreError>) -> Option<T> {
    match outcome {
        Ok(granted) => Some(granted),
        Err(StoreError::Refusal(
            Refusal::Tenant(TenantRefusal::Closed(_))
            | Refusal::Access(AccessRefusal::Unauthorized(BadKey::Revoked)),
        )) => None,
        Err(other) => panic!("{other:?}"),
    }
}

fn on_admin<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> Option<T> {
    if outcome.is_err() {
        assert_eq!(refusal(outcome), closed("acme"));
        return None;
    }
    outcome.ok()
}

/// Does everything in turn until the tenant is closed, and some more.
async fn work(tenant: Arc<TenantFixture>, number: usize) -> Done {
    let mut done = Done::default();
    let place = PLACES[number % PLACES.len()];
    let by = Caller::Tenant(tenant.caller.clone());
    let mut refused = 0;
    while refused <= 3 {
        let round = done.granted + refused;
        let name = format!("{number}-{round}");
        let cause = cause(Actor::Admin(None));
        let Some(id) = on_ledger(tenant.hold(&name, place, 10).await) else {
            refused += 1;
            continue;
        };
        done.reserved.push(id.clone());
        done.granted += 1;
        let (idempotency_key, payload_hash) = (key(&name), hash());
        match round % 6 {
            0 => {
                let request = CommitRequest {
                    idempotency_key,
                    actual: tokens(7),
                    metrics: None,
                    metadata: None,
                };
                let body = HashedRequest {
                    request,
                    payload_hash,
                    attested: None,
                };
                let committed = tenant.ledger.commit(&tenant.caller, &id, &body, &cause);
                if on_ledger(committed.await).is_some() {
                    *done.charged.entry(place).or_default() += 7;
                    done.committed += 1;
                }
            }
            1 => {
                let request = ReleaseRequest {
                    idempotency_key,
                    reason: None,
                };
                let body = HashedRequest {
                    request,
                    payload_hash,
                    attested: None,
                };
                let released = tenant.ledger.release(&by, &id, &body, &cause);
                if on_ledger(released.await).is_some() {
                    done.released += 1;
                }
            }
            2 => {
                let request = ReservationExtendRequest {
                    idempotency_key,
                    extend_by_ms: 1_000,
                    metadata: None,
                };
                let body = HashedRequest {
                    request,
                    payload_hash,
                    attested: None,
                };
                on_ledger(
                    tenant
                        .ledger
                        .extend(&tenant.caller, &id, &body, &cause)
                        .await,
                );
            }
            3 => {
                let path = format!("tenant:acme{place}");
                let credit = funding(Some("acme"), &path, FundingOperation::Credit, 5);
                let funded = tenant
                    .admin
                    .fund_budget(&admin_key(), &credit, &ask().request())
                    .await;
                if on_admin(funded).is_some() {
                    *done.funded.entry(place).or_default() += 5;
                }
            }
            4 => {
                let path = format!("tenant:acme/agent:n{name}");
                let new = new_budget(Some("acme"), &path, 10);
                on_admin(
                    tenant
                        .admin
                        .create_budget(&admin_key(), &new, &scope(&new.scope), &ask().request())
                        .await,
                );
                on_admin(
                    tenant
                        .admin
                        .create_api_key(&new_key("acme"), &ask().request())
                        .await,
                );
            }
            _ => {
                let of = scope(&format!("tenant:acme{place}"));
                let update = BudgetUpdateRequest {
                    overdraft_limit: Some(tokens(round as i64)),
                    ..BudgetUpdateRequest::default()
                };
                let updated = tenant
                    .admin
                    .update_budget(&of, Unit::Tokens, &update, &ask().request())
                    .await;
                on_admin(updated);
            }
        }
    }
    done
}

/// The state right before the status change, computed from the present one.
fn before_of(after: &TenantSnapshot) -> TenantSnapshot {
    let mut before = TenantSnapshot {
        ledgers: after.ledgers.clone(),
        reservations: after.reservations.clone(),
        keys: after.keys.clone(),
        webhooks: after.webhooks.clone(),
        events: after.events.clone(),
        audit: after.audit.clone(),
        tenant: after.tenant.clone(),
    };
    for record in before.ledgers.values_mut().chain(before.keys.values_mut()) {
        record.insert("status".to_owned(), "ACTIVE".to_owned());
    }
    before
}

async fn race(closes: usize, pause_ms: u64) {
    let tenant = TenantFixture::new().await;
    for place in ["", "/agent:a", "/agent:b", "/workspace:w"] {
        tenant.budget(place, 1_000_000).await;
    }
    let tenant = Arc::new(tenant);
    let mut workers = JoinSet::new();
    for number in 0..9 {
        workers.spawn(work(Arc::clone(&tenant), number));
    }
    eventually("the race has begun", || async { tenant.active().await > 0 }).await;
    // Another moment in each round: that is the race.
    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    let mut closers = JoinSet::new();
    for _ in 0..closes {
        let tenant = Arc::clone(&tenant);
        closers.spawn(async move { tenant.close().await });
    }
    let closed = closers.join_all().await;
    assert!(
        closed
            .iter()
            .all(|closed| closed.close == Some(CloseProgress::Closed))
    );
    let moments: std::collections::BTreeSet<_> = closed
        .iter()
        .map(|closed| closed.tenant.closed_at)
        .collect();
    assert_eq!(moments.len(), 1, "it closed once");
    let done = workers.join_all().await;
    reconcile(&tenant).await;

    let before = before_of(&tenant.account().await);
    let after = tenant.check_closed(&before).await;
    let granted: usize = done.iter().map(|done| done.granted).sum();
    assert!(granted > 0, "some came before the close");
    let mut known: Vec<_> = done
        .iter()
        .flat_map(|done| &done.reserved)
        .map(|id| id.as_str().to_owned())
        .collect();
    known.sort_unstable();
    assert!(
        after.reservations.keys().eq(known.iter()),
        "the reservations with events"
    );
    let ended = |status: &str, of_close: bool| {
        let ended = after.reservations.values();
        ended
            .filter(|record| {
                record["status"] == status && record.contains_key("release_reason") == of_close
            })
            .count()
    };
    assert_eq!(
        ended("COMMITTED", false),
        done.iter().map(|done| done.committed).sum::<usize>()
    );
    assert_eq!(
        ended("RELEASED", false),
        done.iter().map(|done| done.released).sum::<usize>()
    );
    // Rule 78: what was granted is part of the closing balance, to the last unit.
    let mut charged_in_all = 0;
    for place in PLACES {
        let ledger = &after.ledgers[&(format!("tenant:acme{place}"), "TOKENS".to_owned())];
        let sum = |of: fn(&Done) -> &BTreeMap<&'static str, i64>| -> i64 {
            done.iter().filter_map(|done| of(done).get(place)).sum()
        };
        let (charged, funded) = (sum(|done| &done.charged), sum(|done| &done.funded));
        charged_in_all += charged;
        assert_eq!(ledger["spent"], charged.to_string(), "{place}");
        assert_eq!(
            ledger["allocated"],
            (1_000_000 + funded).to_string(),
            "{place}"
        );
    }
    let root = &after.ledgers[&("tenant:acme".to_owned(), "TOKENS".to_owned())];
    assert_eq!(root["spent"], charged_in_all.to_string());
    let held: usize = ended("RELEASED", true);
    let released: i64 = after
        .events
        .iter()
        .filter(|event| {
            event["type"] == "reservation.released_via_tenant_cascade"
                && event["scope"] == "tenant:acme"
        })
        .map(|event| {
            event["data.released_amount"]
                .parse::<i64>()
                .expect("a figure")
        })
        .sum();
    assert_eq!(released, 10 * held as i64, "what the close released");
    assert_eq!(
        TenantFixture::requests(&after).len(),
        closes,
        "each request has one entry"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_78_a_request_that_races_with_a_close_is_included_or_refused() {
    for pause_ms in [1, 7, 20, 45, 90] {
        race(1, pause_ms).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_2_concurrent_closes_take_effect_once() {
    for pause_ms in [0, 15, 40] {
        race(4, pause_ms).await;
    }
}
