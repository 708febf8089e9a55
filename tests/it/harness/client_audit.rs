//! The audit of what clients were granted: of their ledgers, and of what a lossy store has lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use super::ledger_audit::LedgerAudit;
use super::ledger_fixture::LedgerFixture;
use super::random_clients::{GrantedRequest, RandomClient};
use super::within;

/// The sums of the responses to some clients.
#[derive(Default)]
pub struct Totals {
    pub reservations: BTreeSet<String>,
    pub posts: BTreeSet<String>,
    /// By scope.
    pub charged: BTreeMap<String, i64>,
    pub committed: usize,
    pub released: usize,
    pub overages: usize,
    pub refunds: usize,
}

impl Totals {
    /// Adds what a client was granted.
    fn add(&mut self, client: &RandomClient) {
        let (mut estimates, mut scopes_of) = (BTreeMap::new(), BTreeMap::new());
        for GrantedRequest {
            path,
            body,
            response,
        } in &client.granted
        {
            let operation = path.rsplit('/').next().expect("a path");
            let id = path.split('/').nth(3).unwrap_or_default();
            let id = match operation {
                "reservations" => response.text("reservation_id"),
                "events" => response.text("event_id"),
                _ => id,
            };
            if let subject @ Value::Object(_) = &body["subject"] {
                scopes_of.insert(id.to_owned(), scopes(subject));
            }
            let charged = match operation {
                "reservations" => {
                    let id = id.to_owned();
                    estimates.insert(id.clone(), response.amount("reserved").expect("an amount"));
                    assert!(self.reservations.insert(id), "one key, one reservation");
                    continue;
                }
                "release" => {
                    self.released += 1;
                    assert_eq!(response.amount("released"), Some(estimates[id]));
                    continue;
                }
                "commit" => {
                    self.committed += 1;
                    let charged = response.amount("charged").expect("an amount");
                    self.overages += usize::from(charged > estimates[id]);
                    charged
                }
                "events" => {
                    assert!(self.posts.insert(id.to_owned()), "one key, one event");
                    let actual = body["actual"]["amount"].as_i64();
                    response.amount("charged").or(actual).expect("an amount")
                }
                "refund" => {
                    self.refunds += 1;
                    -body["amount"]["amount"].as_i64().expect("an amount")
                }
                _ => continue,
            };
            for scope in &scopes_of[id] {
                *self.charged.entry(scope.clone()).or_default() += charged;
            }
        }
    }
}

/// The scopes of a subject.
fn scopes(subject: &Value) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for level in ["tenant", "workspace", "agent"] {
        if let Some(name) = subject[level].as_str() {
            let above = scopes.last().map(|scope| format!("{scope}/"));
            scopes.push(format!("{}{level}:{name}", above.unwrap_or_default()));
        }
    }
    scopes
}

/// Checks that the ledgers are exactly what the clients were granted, once the last hold has expired: every key has the
/// outcome it had, no record is unknown to them, and each cause has its event.
pub async fn check_clients(
    fixture: &LedgerFixture,
    tenant: usize,
    clients: &[RandomClient],
) -> Totals {
    let mut totals = Totals::default();
    for client in clients {
        totals.add(client);
    }
    let all: Vec<_> = clients
        .iter()
        .flat_map(|client| &client.granted)
        .cloned()
        .collect();
    let mut replaying = JoinSet::new();
    for part in all.chunks(all.len().div_ceil(8).max(1)) {
        let (client, part) = (clients[0].client.clone(), part.to_vec());
        replaying.spawn(async move {
            for granted in part {
                granted.replay(&client).await;
            }
        });
    }
    replaying.join_all().await;
    // The leases of a killed dispatcher lapse after 10 s, and a worker that failed often pauses as long.
    let limit = Duration::from_secs(120);
    within(limit, "all abandoned holds have expired", || async {
        let audit = LedgerAudit::read(fixture, tenant).await;
        audit.reservations_in("ACTIVE") == 0
    })
    .await;
    let audit = LedgerAudit::run(fixture, tenant).await;
    assert!(
        audit.reservations.keys().eq(&totals.reservations),
        "the reservations that were granted"
    );
    assert!(
        audit.posts.keys().eq(&totals.posts),
        "the events that were granted"
    );
    assert_eq!(audit.reservations_in("COMMITTED"), totals.committed);
    assert_eq!(audit.reservations_in("RELEASED"), totals.released);
    for (scope, charged) in &totals.charged {
        assert_eq!(audit.figure(scope, "spent"), *charged, "spent of {scope}");
        assert_eq!(audit.figure(scope, "reserved"), 0, "reserved of {scope}");
    }
    let expired = audit.reservations_in("EXPIRED");
    assert_eq!(audit.events_of("reservation.expired"), expired);
    assert_eq!(
        audit.events_of("reservation.commit_overage"),
        totals.overages
    );
    assert_eq!(audit.events_of("reservation.refunded"), totals.refunds);
    let is_of_agent = |scope: &str| scope.contains("/agent:");
    let budgets = audit.ledgers.keys().filter(|(_, scope)| is_of_agent(scope));
    let created = audit.events.iter().filter(|facts| {
        facts
            .get("type")
            .is_some_and(|found| found == "budget.created")
            && facts.get("scope").is_some_and(|scope| is_of_agent(scope))
    });
    assert_eq!(created.count(), budgets.count(), "each is created once");
    totals
}

/// Compares what is in the audit with what the clients were granted, where a failover may have lost the latest of it.
/// Returns how many outcomes are lost; those that are there must be as they were granted.
pub fn lost_outcomes(audit: &LedgerAudit, clients: &[RandomClient]) -> usize {
    let mut lost = 0;
    for GrantedRequest {
        path,
        body,
        response,
    } in clients.iter().flat_map(|client| &client.granted)
    {
        let operation = path.rsplit('/').next().expect("a path");
        let id = match operation {
            "reservations" => response.text("reservation_id"),
            "events" => response.text("event_id"),
            _ => path.split('/').nth(3).expect("an id"),
        };
        let mut records = audit
            .reservations
            .get(id)
            .into_iter()
            .chain(audit.posts.get(id));
        let Some(record) = records.next() else {
            lost += 1;
            continue;
        };
        let charged = response
            .amount("charged")
            .or(body["actual"]["amount"].as_i64());
        let expected = match operation {
            "commit" => ("COMMITTED", charged),
            "events" => ("APPLIED", charged),
            "release" => ("RELEASED", None),
            _ => continue,
        };
        let recorded = record
            .get("charged")
            .and_then(|charged| charged.parse().ok());
        if record["status"] == "ACTIVE" || record["status"] == "EXPIRED" {
            lost += 1;
        } else {
            assert_eq!((record["status"].as_str(), recorded), expected, "{path}");
        }
    }
    lost
}
