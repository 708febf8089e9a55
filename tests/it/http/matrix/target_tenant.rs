//! A tenant that owns something of each kind, and keys of each kind that ask for it.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;

/// All permissions that a tenant's key may have on operations, without those that stand for several.
pub const ALL: [&str; 13] = [
    "reservations:create",
    "reservations:commit",
    "reservations:release",
    "reservations:extend",
    "reservations:list",
    "balances:read",
    "budgets:read",
    "budgets:write",
    "policies:read",
    "policies:write",
    "webhooks:read",
    "webhooks:write",
    "events:read",
];

/// Logs and counts of refusals: the only keys that a refusal may change.
const TRACES: [&str; 11] = [
    "audit",
    "chain",
    "unsealed",
    "events",
    "outbox",
    "days",
    "denials",
    "authfail",
    "auditfail",
    "traffic",
    "lease",
];

/// See the module documentation.
pub struct TargetTenant {
    pub name: String,
    /// `{…}` of paths, and what else requests name.
    pub ids: BTreeMap<&'static str, String>,
    pub owner: String,
    pub poor: String,
    pub narrow: String,
    pub outside: String,
    pub within: String,
    pub revoked: String,
    pub expired: String,
}

/// The status of a tenant after it was populated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TenantState {
    Active,
    Suspended,
    /// With active keys, as between the status change and the end of a close.
    Closed,
}

/// A new key of a tenant: its id and secret.
async fn new_key(
    app: &TestApp,
    tenant: &str,
    permissions: &[&str],
    filter: Value,
) -> (String, String) {
    let body = json!({
        "tenant_id": tenant, "name": "k", "permissions": permissions, "scope_filter": filter,
    });
    let key = app
        .as_admin(Method::POST, "/v1/admin/api-keys", &body)
        .await
        .expect(201);
    let text = |member| key.text(member).to_owned();
    (text("/key_id"), text("/key_secret"))
}

impl TargetTenant {
    /// A new tenant with a ledger, a hold, a policy, a subscription and keys.
    pub async fn new(app: &TestApp, state: TenantState) -> Self {
        let name = format!("v{:012x}", rand::random::<u64>() >> 16);
        let post = async |path: &str, body: Value| {
            let response = app.as_admin(Method::POST, path, &body).await;
            assert!(response.is_success(), "{path} {body}: {response:?}");
            response
        };
        post(
            "/v1/admin/tenants",
            json!({"tenant_id": name, "name": name}),
        )
        .await;
        let scope = format!("tenant:{name}");
        let budget = json!({
            "tenant_id": name, "scope": scope, "unit": "TOKENS", "allocated": {"unit": "TOKENS", "amount": 1000},
        });
        post("/v1/admin/budgets", budget).await;
        let increase =
            json!({"amount": {"unit": "TOKENS", "amount": 5}, "for": "P1D", "reason": "a peak"});
        let path = format!("/v1/admin/budgets/increases?scope={scope}&unit=TOKENS");
        let increase = post(&path, increase).await;
        let policy = json!({"tenant_id": name, "name": "p", "scope_pattern": scope});
        let policy = post("/v1/admin/policies", policy).await;
        let hook = json!({
            "url": "https://hooks.example/in", "event_types": ["budget.funded"], "scope_filter": format!("{scope}/*"),
        });
        let hook = post(&format!("/v1/admin/webhooks?tenant_id={name}"), hook).await;
        let key =
            async |permissions: &[&str], filter| new_key(app, &name, permissions, filter).await;
        let (key_id, owner) = key(&ALL, json!([])).await;
        let (revoked_id, revoked) = key(&ALL, json!([])).await;
        let (expired_id, expired) = key(&ALL, json!([])).await;
        let (_, poor) = key(&[], json!([])).await;
        let (_, narrow) = key(&ALL, json!(["agent:elsewhere"])).await;
        let (_, outside) = key(&ALL, json!([format!("{scope}/agent:elsewhere")])).await;
        let (_, within) = key(&ALL, json!([scope])).await;
        let held = json!({
            "idempotency_key": "held", "subject": {"tenant": name}, "action": {"kind": "llm", "name": "m"},
            "estimate": {"unit": "TOKENS", "amount": 10},
        });
        let held = app
            .post_with(&owner, "/v1/reservations", &held)
            .await
            .expect(200);
        let used = json!({
            "idempotency_key": "used", "subject": {"tenant": name}, "action": {"kind": "llm", "name": "m"},
            "actual": {"unit": "TOKENS", "amount": 10},
        });
        let used = app.post_with(&owner, "/v1/events", &used).await.expect(201);

        let path = format!("/v1/admin/api-keys/{revoked_id}");
        app.as_admin(Method::DELETE, &path, &json!({}))
            .await
            .expect(200);
        let partition = tenant_id(&name).partition();
        let record = app.store.keys().api_key(partition, &expired_id);
        app.run::<()>(&["HSET", &record, "expires_at_ms", "1000"])
            .await;
        let tenant = app.store.keys().tenant(partition, &name);
        match state {
            TenantState::Active => {}
            TenantState::Suspended => {
                let path = format!("/v1/admin/tenants/{name}");
                let body = json!({"status": "SUSPENDED"});
                app.as_admin(Method::PATCH, &path, &body).await.expect(200);
            }
            TenantState::Closed => app.run(&["HSET", &tenant, "status", "CLOSED"]).await,
        }
        let ids = BTreeMap::from([
            ("tenant_id", name.clone()),
            ("reservation_id", held.text("/reservation_id").to_owned()),
            ("policy_id", policy.text("/policy_id").to_owned()),
            ("key_id", key_id),
            ("usage_event_id", used.text("/event_id").to_owned()),
            ("increase_id", increase.text("/increase_id").to_owned()),
            (
                "subscription_id",
                hook.text("/subscription/subscription_id").to_owned(),
            ),
            // No script returns the id of an event; any that names the partition will do to be refused.
            ("event_id", format!("evt_{partition}_{}", "0".repeat(26))),
        ]);
        Self {
            name,
            ids,
            owner,
            poor,
            narrow,
            outside,
            within,
            revoked,
            expired,
        }
    }

    /// A new key of the tenant with these permissions; its secret.
    pub async fn key(&self, app: &TestApp, permissions: &[&str]) -> String {
        new_key(app, &self.name, permissions, json!([])).await.1
    }

    /// Texts that show that something of the tenant is in a response.
    pub fn marks(&self) -> Vec<String> {
        let ids = ["reservation_id", "policy_id", "subscription_id"].map(|name| &self.ids[name]);
        let mut marks: Vec<String> = ids.into_iter().cloned().collect();
        marks.push(format!("\"{}\"", self.scope()));
        marks.push("\"event_id\"".to_owned());
        marks
    }

    pub fn scope(&self) -> String {
        format!("tenant:{}", self.name)
    }

    /// Everything in the tenant's partition but traces of what was refused.
    pub async fn dump(&self, app: &TestApp) -> BTreeMap<String, Vec<u8>> {
        let partition = tenant_id(&self.name).partition();
        let tag = format!("{{{partition}}}:");
        let tenant = app.store.keys().tenant(partition, &self.name);
        let pattern = format!("{}:{tag}*", app.store.keys().prefix());
        let names: Vec<String> = app.run(&["KEYS", &pattern]).await;
        let mut found = BTreeMap::new();
        for name in names {
            let kind = name.split_once(&tag).expect("a tag").1;
            let kind = kind.split(':').next().expect("a word");
            if TRACES.contains(&kind) {
                continue;
            }
            let kind: String = app.run(&["TYPE", &name]).await;
            let value: Option<Vec<u8>> = match kind.as_str() {
                // Its order inside may change as it is read.
                "hash" => {
                    let mut fields: BTreeMap<String, String> = app.run(&["HGETALL", &name]).await;
                    if name == tenant {
                        fields.remove("day"); // The last one of which a key was registered.
                    }
                    Some(format!("{fields:?}").into_bytes())
                }
                _ => app.run(&["DUMP", &name]).await,
            };
            found.extend(value.map(|value| (name, value)));
        }
        assert!(found.len() > 8, "{:?}", found.keys());
        found
    }
}
