//! Makes what a tool needs for itself: a tenant, its budgets and a key.

use secrecy::SecretString;
use serde_json::json;

use super::call::{Call, CallError};
use super::client::Client;
use crate::api::operations::OperationId;
use crate::domain::api_key::permission::Permission;

/// The unit of every amount.
pub(super) const UNIT: &str = "TOKENS";

/// Creates a tenant.
pub(super) async fn create_tenant(admin: &Client, id: &str, name: &str) -> Result<(), CallError> {
    let tenant = json!({"tenant_id": id, "name": name});
    let call = Call::of(OperationId::CreateTenant).body(&tenant);
    admin.send(&call).await.map(drop)
}

/// Creates a budget of a unit.
pub(super) async fn create_budget(
    admin: &Client,
    tenant: &str,
    scope: &str,
    unit: &str,
    amount: i64,
) -> Result<(), CallError> {
    let allocated = json!({"unit": unit, "amount": amount});
    let budget = json!({"tenant_id": tenant, "scope": scope, "unit": unit, "allocated": allocated});
    let call = Call::of(OperationId::CreateBudget).body(&budget);
    admin.send(&call).await.map(drop)
}

/// Creates an API key with the default permissions, and returns its secret.
pub(super) async fn create_key(
    admin: &Client,
    tenant: &str,
    name: &str,
) -> Result<SecretString, CallError> {
    let key = json!({"tenant_id": tenant, "name": name, "permissions": Permission::DEFAULT});
    let create = Call::of(OperationId::CreateApiKey).body(&key);
    let secret = admin.send(&create).await?["key_secret"]
        .as_str()
        .map(SecretString::from);
    secret.ok_or_else(|| admin.unreadable())
}
