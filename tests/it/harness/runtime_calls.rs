//! Requests to the runtime plane of a test service, the states of its records, and the events that follow.

use reqwest::Method;
use serde_json::{Value, json};

use super::app::{ADMIN_KEY, TestApp};
use super::redis_fixture::Fields;
use super::response::Response;

/// Fields of a record, names and values.
pub type State = &'static [(&'static str, &'static str)];

/// A ledger as it is set and as it is found. `spent` follows from the other figures when it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ledger {
    pub remaining: i64,
    pub reserved: i64,
    pub spent: i64,
    pub debt: i64,
    pub over: bool,
}

/// A ledger that is not over its limit.
pub fn ledger(remaining: i64, reserved: i64, spent: i64, debt: i64) -> Ledger {
    Ledger {
        remaining,
        reserved,
        spent,
        debt,
        over: false,
    }
}

/// The same ledger, over its limit.
pub fn over(ledger: Ledger) -> Ledger {
    Ledger {
        over: true,
        ..ledger
    }
}

/// An event of the tenant's log: its facts by name.
#[derive(Debug, Clone)]
pub struct Event(Fields);

impl Event {
    /// A fact; empty when it is not there.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Type, scope and some facts, for comparison with a line of a test.
    pub fn line(&self, facts: &[&str]) -> String {
        let mut words = vec![self.get("type"), self.get("scope")];
        words.extend(facts.iter().map(|name| self.get(name)));
        words.join(" ").trim_end().to_owned()
    }
}

/// The alert state of a ledger, at another time.
pub fn announced_at(announced: &str, at_ms: i64) -> String {
    let words = announced.split_whitespace().enumerate();
    let moved = words.map(|(place, word)| match place {
        1.. if word != "0" => at_ms.to_string(),
        _ => word.to_owned(),
    });
    moved.collect::<Vec<_>>().join(" ")
}

/// An amount of TOKENS as the wire shows it.
pub fn tokens(amount: i64) -> Value {
    json!({"unit": "TOKENS", "amount": amount})
}

/// The subject whose deepest scope is this path.
pub fn subject(scope_path: &str) -> Value {
    let segments = scope_path
        .split('/')
        .filter_map(|segment| segment.split_once(':'));
    segments
        .map(|(level, value)| (level.to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The body with more members, or other values of members.
pub fn with(mut body: Value, more: Value) -> Value {
    for (name, value) in more.as_object().expect("members") {
        body[name] = value.clone();
    }
    body
}

/// The body of a create or a decision on a scope.
pub fn ask_body(key: &str, scope_path: &str, amount: i64) -> Value {
    json!({
        "idempotency_key": key,
        "subject": subject(scope_path),
        "action": {"kind": "llm.completion", "name": "openai:gpt-4o-mini"},
        "estimate": tokens(amount),
    })
}

/// The body of a usage event on a scope.
pub fn event_body(key: &str, scope_path: &str, amount: i64) -> Value {
    json!({
        "idempotency_key": key,
        "subject": subject(scope_path),
        "action": {"kind": "http.get", "name": "weather"},
        "actual": tokens(amount),
    })
}

impl TestApp {
    /// Creates a reservation of the first tenant with further members; the response, whatever its status.
    pub async fn create(&self, key: &str, scope: &str, amount: i64, more: Value) -> Response {
        self.post("/v1/reservations", with(ask_body(key, scope, amount), more))
            .await
    }

    /// Creates a reservation and returns its id. The scope is its idempotency key too.
    pub async fn held(&self, scope: &str, amount: i64, more: Value) -> String {
        let response = self.create(scope, scope, amount, more).await.expect(200);
        response.text("/reservation_id").to_owned()
    }

    /// Asks whether a reservation could be made.
    pub async fn dry_run(&self, key: &str, scope: &str, amount: i64) -> Response {
        self.create(key, scope, amount, json!({"dry_run": true}))
            .await
    }

    /// Asks for a decision.
    pub async fn decide(&self, key: &str, scope: &str, amount: i64) -> Response {
        self.post("/v1/decide", ask_body(key, scope, amount)).await
    }

    /// Commits a reservation in TOKENS.
    pub async fn commit(&self, id: &str, key: &str, amount: i64) -> Response {
        let body = json!({"idempotency_key": key, "actual": tokens(amount)});
        self.post(&format!("/v1/reservations/{id}/commit"), body)
            .await
    }

    /// Releases a reservation.
    pub async fn release(&self, id: &str, key: &str) -> Response {
        let body = json!({"idempotency_key": key});
        self.post(&format!("/v1/reservations/{id}/release"), body)
            .await
    }

    /// Releases a reservation under the admin key.
    pub async fn admin_release(&self, id: &str, key: &str) -> Response {
        let path = format!("/v1/reservations/{id}/release");
        let body = json!({"idempotency_key": key, "reason": "stuck"});
        let request = self.request(Method::POST, &path).json(&body);
        self.send(request.header("X-Admin-API-Key", ADMIN_KEY))
            .await
    }

    /// Moves the expiry of a reservation.
    pub async fn extend(&self, id: &str, key: &str, by_ms: i64) -> Response {
        let body = json!({"idempotency_key": key, "extend_by_ms": by_ms});
        self.post(&format!("/v1/reservations/{id}/extend"), body)
            .await
    }

    /// Posts an event with further members.
    pub async fn post_event(&self, key: &str, scope: &str, amount: i64, more: Value) -> Response {
        self.post("/v1/events", with(event_body(key, scope, amount), more))
            .await
    }

    /// Reads a reservation.
    pub async fn found(&self, id: &str) -> Response {
        self.get(&format!("/v1/reservations/{id}")).await
    }

    /// A ledger of the first tenant in TOKENS with figures of the test's choice; `spent` is the rest.
    pub async fn place(&self, scope: &str, allocated: i64, limit: i64, found: Ledger) {
        self.budget(scope, allocated, limit).await;
        let spent = i128::from(allocated)
            - i128::from(found.remaining)
            - i128::from(found.reserved)
            - i128::from(found.debt);
        let fields = [
            ("remaining", found.remaining.to_string()),
            ("reserved", found.reserved.to_string()),
            ("debt", found.debt.to_string()),
            ("spent", spent.to_string()),
            ("is_over_limit", i32::from(found.over).to_string()),
        ];
        let fields = fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect::<Vec<_>>();
        self.set(&self.ledger_key(0, scope), &fields).await;
    }

    /// Sets fields of the first tenant's record.
    pub async fn set_tenant(&self, fields: &[(&str, &str)]) {
        self.set(&self.tenant_key(), fields).await;
    }

    /// Sets fields of a ledger of the first tenant in TOKENS.
    pub async fn set_ledger(&self, scope: &str, fields: &[(&str, &str)]) {
        self.set(&self.ledger_key(0, scope), fields).await;
    }

    /// Sets fields of the first tenant's API key.
    pub async fn set_key(&self, fields: &[(&str, &str)]) {
        let caller = &self.callers[0];
        let keys = self.store.keys();
        let key = keys.api_key(caller.partition, caller.key_id.as_str());
        self.set(&key, fields).await;
    }

    /// The record of the first tenant.
    pub fn tenant_key(&self) -> String {
        let caller = &self.callers[0];
        let keys = self.store.keys();
        keys.tenant(caller.partition, caller.tenant.as_str())
    }

    /// The record of a ledger in TOKENS.
    pub fn ledger_key(&self, tenant: usize, scope: &str) -> String {
        let caller = &self.callers[tenant];
        let keys = self.store.keys();
        keys.budget(caller.partition, caller.tenant.as_str(), "TOKENS", scope)
    }

    /// The record of a reservation of the first tenant.
    pub fn reservation_key(&self, id: &str) -> String {
        let partition = self.callers[0].partition;
        self.store.keys().reservation(partition, id)
    }

    /// The stored figures of a ledger of the first tenant in TOKENS. They must agree with the balances that are served.
    pub async fn stored_ledger(&self, scope: &str) -> Ledger {
        let names = ["remaining", "reserved", "spent", "debt", "is_over_limit"];
        let mut words = vec!["HMGET".to_owned(), self.ledger_key(0, scope)];
        words.extend(names.map(str::to_owned));
        let stored: Vec<i64> = self.run(&words).await;
        let (remaining, reserved, spent, debt) = self.figures(scope).await;
        assert_eq!(
            stored[..4],
            [remaining, reserved, spent, debt],
            "the ledger of {scope}"
        );
        Ledger {
            over: stored[4] == 1,
            ..ledger(remaining, reserved, spent, debt)
        }
    }

    /// Moves the deadline of a reservation of the first tenant, so that it expired this long ago (or expires in `-ago_ms`).
    pub async fn backdate(&self, id: &str, ago_ms: i64) {
        let (caller, keys) = (&self.callers[0], self.store.keys());
        let (partition, tenant) = (caller.partition, caller.tenant.as_str());
        let record = self.reservation_key(id);
        let grace_ms: i64 = self.run(&["HGET", &record, "grace_ms"]).await;
        let expires_ms = self.now_ms().await - ago_ms;
        let due = (expires_ms + grace_ms).to_string();
        self.set(&record, &[("expires_at_ms", &expires_ms.to_string())])
            .await;
        let (due_key, tenants) = (keys.due(partition, tenant), keys.due_tenants(partition));
        self.run::<()>(&["ZADD", &due_key, &due, id]).await;
        let (other, expires) = (keys.other_graces(partition, tenant), expires_ms.to_string());
        self.run::<()>(&["ZADD", &other, "XX", &expires, id]).await;
        self.run::<()>(&["ZADD", &tenants, "LT", &due, tenant])
            .await;
    }

    /// Moves the times of what a ledger of the first tenant in TOKENS has announced.
    pub async fn announced_at(&self, scope: &str, at_ms: i64) {
        let key = self.ledger_key(0, scope);
        let stored: Option<String> = self.run(&["HGET", &key, "announced"]).await;
        let announced = announced_at(&stored.unwrap_or_default(), at_ms);
        self.set(&key, &[("announced", &announced)]).await;
    }

    /// The number of holds that a sweep of the first tenant expires now.
    pub async fn sweep(&self) -> i64 {
        use budget_authority::domain::cause::Cause;
        let (tenant, cause) = (&self.callers[0].tenant, Cause::sweep().lines());
        let until = self.now_ms().await;
        budget_authority::store::runtime::expire::expire_tenant(&self.store, tenant, &cause, until)
            .await
            .expect("Redis answers")
    }

    /// The first tenant's events, oldest first.
    pub async fn events(&self) -> Vec<Event> {
        let (caller, keys) = (&self.callers[0], self.store.keys());
        let log = |day| keys.events(caller.partition, caller.tenant.as_str(), day);
        self.log_facts(log).await.into_iter().map(Event).collect()
    }

    /// The pointers of the first tenant's partition, oldest first.
    pub async fn outbox(&self) -> Vec<Event> {
        let partition = self.callers[0].partition;
        let outbox = self.entries(&self.store.keys().outbox(partition)).await;
        outbox.into_iter().map(Event).collect()
    }
}
