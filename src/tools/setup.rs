//! Makes what a tool needs for itself: a tenant, its budgets and a key.

use secrecy::SecretString;
use serde_json::{Value, json};

use super::call::{Call, CallError};
use super::client::Client;
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;

/// The unit of every amount.
pub(super) const UNIT: &str = "TOKENS";

async fn create(admin: &Client, what: OperationId, body: Value) -> Result<Value, CallError> {
    admin.send(&Call::of(what).body(&body)).await
}

/// Creates a tenant.
pub(super) async fn create_tenant(admin: &Client, id: &str, name: &str) -> Result<(), CallError> {
    let tenant = json!({"tenant_id": id, "name": name});
    let created = create(admin, OperationId::CreateTenant, tenant).await;
    created.map(drop)
}

/// Creates a budget of a unit, with further members.
pub(super) async fn create_budget(
    admin: &Client,
    tenant: &str,
    scope: &str,
    unit: &str,
    amount: i64,
    more: Value,
) -> Result<(), CallError> {
    let allocated = json!({"unit": unit, "amount": amount});
    let mut budget =
        json!({"tenant_id": tenant, "scope": scope, "unit": unit, "allocated": allocated});
    for (name, value) in more.as_object().into_iter().flatten() {
        budget[name] = value.clone();
    }
    let created = create(admin, OperationId::CreateBudget, budget).await;
    created.map(drop)
}

/// Creates an API key for the runtime plane and reads, and returns its secret.
pub(super) async fn create_key(
    admin: &Client,
    tenant: &str,
    name: &str,
) -> Result<SecretString, CallError> {
    let permissions = Dialect::default().words().default_permissions;
    let key = json!({"tenant_id": tenant, "name": name, "permissions": permissions});
    let created = create(admin, OperationId::CreateApiKey, key).await?;
    let secret = created["key_secret"].as_str();
    secret
        .map(SecretString::from)
        .ok_or_else(|| admin.unreadable())
}
