//! Clients that send random requests and record the granted ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ledger_audit::LedgerAudit;
use super::ledger_fixture::LedgerFixture;
use super::response::Response;
use super::retrying_client::RetryingClient;
use super::runtime_calls::tokens;
use super::within;

/// See the module documentation.
pub struct RandomClient {
    client: RetryingClient,
    tenant: String,
    workspace: String,
    name: String,
    keys: u64,
    granted: Vec<GrantedRequest>,
    /// Whether the store may lose acknowledged writes.
    lossy: bool,
}

/// A request that was granted.
#[derive(Clone)]
struct GrantedRequest {
    path: String,
    body: Value,
    response: Response,
}

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
}

/// Clients that are sending.
pub struct RandomClients {
    closing: Arc<AtomicBool>,
    clients: JoinSet<RandomClient>,
}

impl RandomClients {
    /// `count` clients of a tenant, spread over the workspaces `w0` to `w2`, until [`RandomClients::stop`].
    pub fn start(client: &RetryingClient, tenant: &str, count: usize) -> Self {
        Self::spawn(client, tenant, count, false)
    }

    /// The same on a store that may lose acknowledged writes.
    pub fn start_on_lossy_store(client: &RetryingClient, tenant: &str, count: usize) -> Self {
        Self::spawn(client, tenant, count, true)
    }

    fn spawn(client: &RetryingClient, tenant: &str, count: usize, lossy: bool) -> Self {
        let closing = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for n in 0..count {
            let closing = Arc::clone(&closing);
            let mut client = RandomClient {
                client: client.clone(),
                tenant: tenant.to_owned(),
                workspace: format!("w{}", n % 3),
                name: format!("c{n}"),
                keys: 0,
                granted: Vec::new(),
                lossy,
            };
            clients.spawn(async move {
                while !closing.load(Ordering::Relaxed) {
                    client.act().await;
                }
                client
            });
        }
        Self { closing, clients }
    }

    /// Lets each client finish what it is doing.
    pub async fn stop(self) -> Vec<RandomClient> {
        self.closing.store(true, Ordering::Relaxed);
        self.clients.join_all().await
    }
}

/// The ledgers that a clients needs: of the tenant and of its three workspaces.
pub async fn seed_ledgers(fixture: &LedgerFixture, tenant: usize, allocated: i64) {
    let name = fixture.callers[tenant].tenant.as_str();
    let workspaces = (0..3).map(|n| format!("tenant:{name}/workspace:w{n}"));
    for scope in workspaces.chain([format!("tenant:{name}")]) {
        fixture.budget_of(tenant, &scope, allocated).await;
    }
}

impl RandomClient {
    async fn act(&mut self) {
        let amount = rand::random_range(1..=40);
        match rand::random_range(0..20) {
            0..4 => drop(self.post_event(amount, None).await),
            4..7 => self.replay_one().await,
            7..9 => drop(self.reserve(amount, 1_000).await),
            9 => self.commit_late(amount).await,
            _ => self.reserve_and_finish(amount).await,
        }
    }

    async fn reserve_and_finish(&mut self, amount: i64) {
        let Some(id) = self.reserve(amount, 3_600_000).await else {
            return;
        };
        match rand::random_range(0..6) {
            0 => {
                let body = json!({"idempotency_key": self.key()});
                self.send(format!("/v1/reservations/{id}/release"), body)
                    .await;
            }
            1 => {
                let body = json!({"idempotency_key": self.key(), "extend_by_ms": 5_000});
                self.send(format!("/v1/reservations/{id}/extend"), body)
                    .await;
                self.commit(&id, amount).await;
            }
            2 => drop(self.commit(&id, amount + rand::random_range(1..=20)).await),
            _ => drop(self.commit(&id, rand::random_range(0..=amount)).await),
        }
    }

    /// Ends about when the reservation expires; a late amount is charged as an event under the same key.
    async fn commit_late(&mut self, amount: i64) {
        let Some(id) = self.reserve(amount, 1_000).await else {
            return;
        };
        // Just before, at, or after its end.
        tokio::time::sleep(Duration::from_millis(rand::random_range(900..1_150))).await;
        let key = self.key();
        let response = self.commit_as(&key, &id, amount).await;
        if response.status == 410 {
            self.post_event(amount, Some(key)).await;
        }
    }

    async fn reserve(&mut self, amount: i64, ttl_ms: i64) -> Option<String> {
        let body = json!({
            "idempotency_key": self.key(), "subject": self.subject(), "action": action(), "estimate": tokens(amount),
            "ttl_ms": ttl_ms, "grace_period_ms": 0,
        });
        let response = self.send("/v1/reservations".to_owned(), body).await;
        (response.status == 200).then(|| response.text("reservation_id").to_owned())
    }

    async fn commit(&mut self, id: &str, actual: i64) -> Response {
        let key = self.key();
        self.commit_as(&key, id, actual).await
    }

    async fn commit_as(&mut self, key: &str, id: &str, actual: i64) -> Response {
        let body = json!({"idempotency_key": key, "actual": tokens(actual)});
        self.send(format!("/v1/reservations/{id}/commit"), body)
            .await
    }

    async fn post_event(&mut self, actual: i64, key: Option<String>) -> Response {
        let key = key.unwrap_or_else(|| self.key());
        let body = json!({
            "idempotency_key": key, "subject": self.subject(), "action": action(), "actual": tokens(actual),
        });
        self.send("/v1/events".to_owned(), body).await
    }

    async fn send(&mut self, path: String, body: Value) -> Response {
        let response = self.client.post(&path, &body).await;
        match response.status {
            200 | 201 => {
                let response = response.clone();
                self.granted.push(GrantedRequest {
                    path,
                    body,
                    response,
                });
            }
            404 => assert!(self.lossy, "{path}: {response:?}"),
            409 => assert_eq!(
                response.text("error"),
                "BUDGET_EXCEEDED",
                "{path}: {response:?}"
            ),
            status => assert_eq!(status, 410, "{path} {body}: {response:?}"),
        }
        response
    }

    async fn replay_one(&self) {
        if !self.granted.is_empty() && !self.lossy {
            let granted = &self.granted[rand::random_range(0..self.granted.len())];
            granted.replay(&self.client).await;
        }
    }

    fn key(&mut self) -> String {
        self.keys += 1;
        format!("{}-{}", self.name, self.keys)
    }

    fn subject(&self) -> Value {
        json!({"tenant": self.tenant, "workspace": self.workspace})
    }

    fn add_to(&self, totals: &mut Totals) {
        let mut estimates = BTreeMap::new();
        for GrantedRequest {
            path,
            body,
            response,
        } in &self.granted
        {
            let operation = path.rsplit('/').next().expect("a path");
            let id = path.split('/').nth(3).unwrap_or_default();
            let charged = match operation {
                "reservations" => {
                    let id = response.text("reservation_id").to_owned();
                    estimates.insert(id.clone(), response.amount("reserved").expect("an amount"));
                    assert!(totals.reservations.insert(id), "one key, one reservation");
                    continue;
                }
                "release" => {
                    totals.released += 1;
                    assert_eq!(response.amount("released"), Some(estimates[id]));
                    continue;
                }
                "commit" => {
                    totals.committed += 1;
                    let charged = response.amount("charged").expect("an amount");
                    totals.overages += usize::from(charged > estimates[id]);
                    charged
                }
                "events" => {
                    let id = response.text("event_id").to_owned();
                    assert!(totals.posts.insert(id), "one key, one event");
                    let actual = body["actual"]["amount"].as_i64();
                    response.amount("charged").or(actual).expect("an amount")
                }
                _ => continue,
            };
            let root = format!("tenant:{}", self.tenant);
            let leaf = format!("{root}/workspace:{}", self.workspace);
            for scope in [root, leaf] {
                *totals.charged.entry(scope).or_default() += charged;
            }
        }
    }
}

impl GrantedRequest {
    async fn replay(&self, client: &RetryingClient) {
        let again = client.post(&self.path, &self.body).await;
        assert_eq!(
            again.status, self.response.status,
            "{} {}: {again:?}",
            self.path, self.body
        );
        assert_eq!(
            again.lasting(),
            self.response.lasting(),
            "{} {}",
            self.path,
            self.body
        );
    }
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
        client.add_to(&mut totals);
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
    let limit = Duration::from_secs(45);
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

/// The action of the tests' reservations.
pub fn action() -> Value {
    json!({"kind": "llm.completion", "name": "openai:gpt-4o-mini"})
}
