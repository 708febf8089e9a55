//! The service as its operator sees it: tenants, budgets, keys and policies by plain HTTP, and clients for them.

use reqwest::Method;
use runcycles::CyclesClient;
use runcycles::models::{Action, Amount, IdempotencyKey, ReservationCreateRequest, Subject};
use serde_json::{Value, json};

fn setting(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: tests/it/http/clients.rs runs these tests"))
}

/// A tenant of a test's own.
pub struct Tenant {
    pub name: String,
    pub key: String,
}

/// A text that nothing else uses.
pub fn fresh() -> String {
    IdempotencyKey::random().into_inner().replace('-', "")
}

pub fn tokens(amount: i64) -> Amount {
    Amount::tokens(amount)
}

fn action() -> Action {
    Action::new("llm.completion", "openai:gpt-4o-mini")
}

/// An operation of the operator's, which must succeed; its answer.
pub async fn admin(method: Method, path: &str, body: Value) -> Value {
    let url = setting("BUDGET_URL") + path;
    let request = reqwest::Client::new().request(method, &url);
    let request = request.header("X-Admin-API-Key", setting("BUDGET_ADMIN_KEY"));
    let response = request.json(&body).send().await.expect("an answer");
    let (status, text) = (response.status(), response.text().await.expect("a body"));
    assert!(status.is_success(), "{url} {body}: {status} {text}");
    serde_json::from_str(&text).expect("JSON")
}

impl Tenant {
    /// With a root budget in TOKENS.
    pub async fn new(allocated: i64) -> Self {
        Self::with(allocated, json!({}), json!({})).await
    }

    /// The same with settings of the tenant and of the budget.
    pub async fn with(allocated: i64, settings: Value, budget: Value) -> Self {
        let name = format!("rs-{}", &fresh()[..20]);
        let tenant = joined(json!({"tenant_id": name, "name": name}), settings);
        admin(Method::POST, "/v1/admin/tenants", tenant).await;
        let scope = format!("tenant:{name}");
        // Period and limits are members that the protocol does not have: clients must not notice them.
        let most = json!({"unit": "TOKENS", "amount": i64::MAX});
        let made = json!({
            "tenant_id": name, "scope": scope, "unit": "TOKENS", "allocated": {"unit": "TOKENS", "amount": allocated},
            "period": {"every": "P1Y"}, "limits": [{"every": "P1Y", "time_zone": "Europe/Berlin", "amount": most}],
        });
        admin(Method::POST, "/v1/admin/budgets", joined(made, budget)).await;
        let mut tenant = Self {
            name,
            key: String::new(),
        };
        tenant.key = tenant.new_key(json!({})).await;
        tenant
    }

    /// Without any budget.
    pub async fn bare() -> Self {
        let name = format!("rs-{}", &fresh()[..20]);
        let body = json!({"tenant_id": name, "name": name});
        admin(Method::POST, "/v1/admin/tenants", body).await;
        let mut tenant = Self {
            name,
            key: String::new(),
        };
        tenant.key = tenant.new_key(json!({})).await;
        tenant
    }

    /// One that is closed while its key still stands; the test suite keeps it.
    pub fn closed() -> Self {
        Self {
            name: setting("BUDGET_CLOSED_TENANT"),
            key: setting("BUDGET_CLOSED_KEY"),
        }
    }

    /// The text of one more key.
    pub async fn new_key(&self, fields: Value) -> String {
        let key = joined(json!({"tenant_id": self.name, "name": "client"}), fields);
        let made = admin(Method::POST, "/v1/admin/api-keys", key).await;
        made["key_secret"].as_str().expect("a text").to_owned()
    }

    pub async fn policy(&self, fields: Value) {
        let policy =
            json!({"tenant_id": self.name, "name": fresh(), "scope_pattern": self.scope()});
        admin(Method::POST, "/v1/admin/policies", joined(policy, fields)).await;
    }

    /// Freezes the root budget.
    pub async fn freeze(&self) {
        let path = format!(
            "/v1/admin/budgets/freeze?scope={}&unit=TOKENS",
            self.scope()
        );
        admin(Method::POST, &path, json!({})).await;
    }

    pub async fn set_status(&self, status: &str) {
        let path = format!("/v1/admin/tenants/{}", self.name);
        admin(Method::PATCH, &path, json!({"status": status})).await;
    }

    /// `remaining reserved spent debt` of the root budget, as the operator sees it.
    pub async fn figures(&self) -> [i64; 4] {
        let path = format!(
            "/v1/admin/budgets/lookup?scope={}&unit=TOKENS",
            self.scope()
        );
        let ledger = admin(Method::GET, &path, json!({})).await;
        ["remaining", "reserved", "spent", "debt"]
            .map(|name| ledger[name]["amount"].as_i64().unwrap_or(0))
    }

    pub fn scope(&self) -> String {
        format!("tenant:{}", self.name)
    }

    pub fn subject(&self) -> Subject {
        Subject {
            tenant: Some(self.name.clone()),
            ..Subject::default()
        }
    }

    pub fn client(&self) -> CyclesClient {
        self.client_of(&self.key)
    }

    /// The client with another key.
    pub fn client_of(&self, key: &str) -> CyclesClient {
        CyclesClient::builder(key, setting("BUDGET_URL"))
            .tenant(&self.name)
            .read_timeout(std::time::Duration::from_secs(10))
            .journal_enabled(false)
            .build()
    }

    /// A create of TOKENS.
    pub fn reservation(&self, amount: i64) -> ReservationCreateRequest {
        ReservationCreateRequest::builder()
            .subject(self.subject())
            .action(action())
            .estimate(tokens(amount))
            .build()
    }
}

/// The members of both objects.
fn joined(mut one: Value, other: Value) -> Value {
    let members = one.as_object_mut().expect("an object");
    members.extend(other.as_object().expect("an object").clone());
    one
}
