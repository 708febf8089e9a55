//! Clients that send random requests and record the granted ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use budget_authority::admin::Admin;
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::fields::Read as _;
use budget_authority::domain::json::Json;
use budget_authority::domain::policy::{PolicyCreateRequest, ScopePattern};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::admin_fixture::{admin_key, ask};
use super::ledger_fixture::LedgerFixture;
use super::response::Response;
use super::retrying_client::RetryingClient;
use super::runtime_calls::tokens;

pub const RESERVATIONS: &str = "/v1/reservations";

/// See the module documentation.
pub struct RandomClient {
    pub(super) client: RetryingClient,
    pub(super) tenant: String,
    pub(super) workspace: String,
    name: String,
    keys: u64,
    pub(super) granted: Vec<GrantedRequest>,
    /// Whether the store may lose acknowledged writes.
    lossy: bool,
    /// The longest pause between two acts.
    pause_ms: u64,
}

/// A request that was granted.
#[derive(Clone)]
pub(super) struct GrantedRequest {
    pub path: String,
    pub body: Value,
    pub response: Response,
}

/// Clients that are sending.
pub struct RandomClients {
    closing: Arc<AtomicBool>,
    clients: JoinSet<RandomClient>,
}

impl RandomClients {
    /// `count` clients of a tenant, spread over the workspaces `w0` to `w2`, until [`RandomClients::stop`].
    pub fn start(client: &RetryingClient, tenant: &str, count: usize) -> Self {
        Self::resume(RandomClient::several(client, tenant, count))
    }

    /// The same on a store that may lose acknowledged writes.
    pub fn start_on_lossy_store(client: &RetryingClient, tenant: &str, count: usize) -> Self {
        let mut clients = RandomClient::several(client, tenant, count);
        clients.iter_mut().for_each(|client| client.lossy = true);
        Self::resume(clients)
    }

    /// The same with pauses of up to this time between two acts.
    pub fn start_pausing(
        client: &RetryingClient,
        tenant: &str,
        count: usize,
        pause_ms: u64,
    ) -> Self {
        let mut clients = RandomClient::several(client, tenant, count);
        clients
            .iter_mut()
            .for_each(|client| client.pause_ms = pause_ms);
        Self::resume(clients)
    }

    /// Lets clients that were stopped go on.
    pub fn resume(clients: Vec<RandomClient>) -> Self {
        let closing = Arc::new(AtomicBool::new(false));
        let mut running = JoinSet::new();
        for mut client in clients {
            let closing = Arc::clone(&closing);
            running.spawn(async move {
                while !closing.load(Ordering::Relaxed) {
                    client.act().await;
                    client.pause().await;
                }
                client
            });
        }
        Self {
            closing,
            clients: running,
        }
    }

    /// Lets each client finish what it is doing.
    pub async fn stop(self) -> Vec<RandomClient> {
        self.closing.store(true, Ordering::Relaxed);
        self.clients.join_all().await
    }
}

/// The ledgers that clients need, of the tenant and of its three workspaces, and templates for the agents of these.
pub async fn seed_ledgers(fixture: &LedgerFixture, tenant: usize, allocated: i64) {
    let name = fixture.callers[tenant].tenant.as_str();
    fixture
        .budget_of(tenant, &format!("tenant:{name}"), allocated)
        .await;
    let admin = Admin::new(fixture.store.clone(), Dialect::Service);
    for workspace in (0..3).map(|n| format!("tenant:{name}/workspace:w{n}")) {
        fixture.budget_of(tenant, &workspace, allocated).await;
        let pattern = format!("{workspace}/agent:*");
        let policy = json!({
            "tenant_id": name, "name": pattern, "scope_pattern": pattern,
            "budget_templates": [{"unit": "TOKENS", "allocated": tokens(allocated)}],
        });
        let policy = Json::parse(policy.to_string().as_bytes()).expect("JSON");
        let policy = PolicyCreateRequest::from_json(policy).expect("a policy");
        let pattern = ScopePattern::parse(&pattern).expect("a pattern");
        admin
            .create_policy(&admin_key(), &policy, &pattern, &ask().request())
            .await
            .expect("a new policy");
    }
}

impl RandomClient {
    fn several(client: &RetryingClient, tenant: &str, count: usize) -> Vec<Self> {
        let of = |number| Self::new(client, tenant, number);
        (0..count).map(of).collect()
    }

    /// A client that does what the test says.
    pub fn new(client: &RetryingClient, tenant: &str, number: usize) -> Self {
        Self {
            client: client.clone(),
            tenant: tenant.to_owned(),
            workspace: format!("w{}", number % 3),
            name: format!("c{number}"),
            keys: 0,
            granted: Vec::new(),
            lossy: false,
            pause_ms: 0,
        }
    }

    async fn pause(&self) {
        if self.pause_ms > 0 {
            // It also does other things.
            tokio::time::sleep(Duration::from_millis(rand::random_range(0..self.pause_ms))).await;
        }
    }

    async fn act(&mut self) {
        let amount = rand::random_range(1..=40);
        match rand::random_range(0..20) {
            0..4 => drop(self.post_event(amount, None).await),
            4..7 => self.replay_one().await,
            7..9 => drop(self.reserve(amount, 1_000).await),
            9 => self.commit_late(amount).await,
            10..12 => self.refund_one(amount).await,
            _ => self.reserve_and_finish(amount).await,
        }
    }

    async fn reserve_and_finish(&mut self, amount: i64) {
        let Some(id) = self.reserve(amount, 3_600_000).await else {
            return;
        };
        match rand::random_range(0..6) {
            0 => drop(self.release(&id).await),
            1 => {
                self.extend(&id).await;
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

    /// The body of a create under a new key.
    pub fn create_body(&mut self, amount: i64, ttl_ms: i64) -> Value {
        json!({
            "idempotency_key": self.key(), "subject": self.subject(), "action": action(), "estimate": tokens(amount),
            "ttl_ms": ttl_ms, "grace_period_ms": 0,
        })
    }

    /// Sends a create until there is a decision.
    pub async fn create(&mut self, body: Value) -> Response {
        self.send(RESERVATIONS.to_owned(), body).await
    }

    pub async fn reserve(&mut self, amount: i64, ttl_ms: i64) -> Option<String> {
        let body = self.create_body(amount, ttl_ms);
        let response = self.create(body).await;
        (response.status == 200).then(|| response.text("reservation_id").to_owned())
    }

    pub async fn release(&mut self, id: &str) -> Response {
        let body = json!({"idempotency_key": self.key()});
        self.send(format!("{RESERVATIONS}/{id}/release"), body)
            .await
    }

    pub async fn extend(&mut self, id: &str) -> Response {
        let body = json!({"idempotency_key": self.key(), "extend_by_ms": 5_000});
        self.send(format!("{RESERVATIONS}/{id}/extend"), body).await
    }

    pub async fn commit(&mut self, id: &str, actual: i64) -> Response {
        let key = self.key();
        self.commit_as(&key, id, actual).await
    }

    async fn commit_as(&mut self, key: &str, id: &str, actual: i64) -> Response {
        let body = json!({"idempotency_key": key, "actual": tokens(actual)});
        self.send(format!("{RESERVATIONS}/{id}/commit"), body).await
    }

    async fn post_event(&mut self, actual: i64, key: Option<String>) -> Response {
        let key = key.unwrap_or_else(|| self.key());
        let body = json!({
            "idempotency_key": key, "subject": self.subject(), "action": action(), "actual": tokens(actual),
        });
        self.send("/v1/events".to_owned(), body).await
    }

    /// Gives back a part of what one of its requests has charged. Some ask for more than is left of the charge.
    async fn refund_one(&mut self, amount: i64) {
        let charges = self.granted.iter().filter_map(|granted| {
            let id = granted.path.split('/').nth(3).unwrap_or_default();
            match granted.path.rsplit('/').next().expect("a path") {
                "commit" => Some(format!("{RESERVATIONS}/{id}/refund")),
                "events" => {
                    let id = granted.response.text("event_id");
                    Some(format!("/v1/usage-events/{id}/refund"))
                }
                _ => None,
            }
        });
        let charges: Vec<_> = charges.collect();
        // A lossy store may know nothing of the charge.
        if !charges.is_empty() && !self.lossy {
            let path = charges[rand::random_range(0..charges.len())].clone();
            let amount = tokens(rand::random_range(0..=amount));
            let body =
                json!({"idempotency_key": self.key(), "amount": amount, "reason": "a mistake"});
            self.send(path, body).await;
        }
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
            400 if path.ends_with("/refund") => assert_eq!(
                response.text("error"),
                "LIMIT_EXCEEDED",
                "{path}: {response:?}"
            ),
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

    /// In one of four an agent; its clients begin a new one with every twentieth key.
    fn subject(&self) -> Value {
        let agent = (rand::random_range(0..4) == 0).then(|| format!("a{}", self.keys / 20));
        let mut subject = json!({"tenant": self.tenant, "workspace": self.workspace});
        if let Some(agent) = agent {
            subject["agent"] = agent.into();
        }
        subject
    }
}

impl GrantedRequest {
    pub async fn replay(&self, client: &RetryingClient) {
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

/// The action of the tests' reservations.
pub fn action() -> Value {
    json!({"kind": "llm.completion", "name": "openai:gpt-4o-mini"})
}
