//! The service under test: makes a tenant through the admin plane, and reads its ledgers afterwards.

use std::sync::Arc;

use hyper::header::HeaderMap;
use secrecy::SecretString;
use serde_json::json;
use url::Url;

use super::error::BenchError;
use super::ledger::{Difference, Totals, differences};
use super::requests::{UNIT, scope_paths};
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;
use crate::tools::http;
use crate::tools::json_client::{CallError, JsonClient};

/// The allocation of each budget: ample, and exact in 15 digits.
pub(super) const ALLOCATED: i64 = 900_000_000_000_000;

/// Where the service is, and its admin key.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub runtime: Arc<Url>,
    pub admin: Arc<Url>,
    pub admin_key: SecretString,
    pub dialect: Dialect,
}

/// A tenant of the benchmark, with one key and one budget per scope.
#[derive(Debug, Clone)]
pub(super) struct Tenant {
    pub id: String,
    pub key: SecretString,
    /// Full paths, root first.
    pub scopes: Vec<String>,
}

impl Service {
    /// Makes a tenant with a random name, its key and its budgets. They stay after the run.
    pub async fn provision(&self, scopes: u8) -> Result<Tenant, BenchError> {
        let mut admin = self.admin()?;
        let id = make_tenant(&mut admin).await?;
        let scopes = scope_paths(&id, scopes);
        for scope in &scopes {
            make_budget(&mut admin, &id, scope).await?;
        }
        let (step, operation) = ("making an API key", OperationId::CreateApiKey);
        let request = json!({"tenant_id": id, "name": "load generator"});
        let made = admin.post(step, operation, &request).await?;
        let secret = made["key_secret"].as_str();
        let secret = secret.ok_or(CallError::Unreadable { step })?;
        Ok(Tenant {
            key: SecretString::from(secret),
            id,
            scopes,
        })
    }

    /// A client of the admin plane.
    pub fn admin(&self) -> Result<JsonClient, CallError> {
        JsonClient::new(Arc::clone(&self.admin), &ADMIN_KEY, &self.admin_key)
    }

    /// A client of the runtime plane with the tenant's key.
    pub fn runtime(&self, tenant: &Tenant) -> Result<JsonClient, CallError> {
        let key_header = &self.dialect.header_names().api_key;
        JsonClient::new(Arc::clone(&self.runtime), key_header, &tenant.key)
    }

    /// The headers of the tenant's requests.
    pub fn headers(&self, tenant: &Tenant) -> Result<HeaderMap, CallError> {
        let key_header = &self.dialect.header_names().api_key;
        http::headers(key_header, &tenant.key).map_err(|_| CallError::Key)
    }

    /// Reads every ledger on both planes and compares it with the totals of the responses.
    pub async fn check(
        &self,
        tenant: &Tenant,
        totals: &Totals,
    ) -> Result<Vec<Difference>, BenchError> {
        let expected = totals.expected(ALLOCATED);
        let mut runtime = self.runtime(tenant)?;
        let source = OperationId::GetBalances.path();
        let path = format!("{source}?tenant={}&limit=200", tenant.id);
        let page = runtime.get("reading the balances", &path).await?;
        let balances = page["balances"].as_array().map_or(&[][..], Vec::as_slice);
        let mut found = differences(source, &tenant.scopes, expected, balances);

        let mut admin = self.admin()?;
        let source = OperationId::LookupBudget.path();
        let mut ledgers = Vec::new();
        for scope in &tenant.scopes {
            let query: String = url::form_urlencoded::Serializer::new(String::new())
                .append_pair("scope", scope)
                .append_pair("unit", UNIT)
                .finish();
            let path = format!("{source}?{query}");
            ledgers.push(admin.get("looking up a budget", &path).await?);
        }
        found.extend(differences(source, &tenant.scopes, expected, &ledgers));
        Ok(found)
    }
}

/// Makes a tenant with a random id, and returns the id.
pub(super) async fn make_tenant(admin: &mut JsonClient) -> Result<String, CallError> {
    let id = format!("bench-{:012x}", rand::random::<u64>() >> 16);
    let tenant = json!({"tenant_id": id, "name": "load generator"});
    let operation = OperationId::CreateTenant;
    admin.post("making a tenant", operation, &tenant).await?;
    Ok(id)
}

/// Makes an ample budget.
pub(super) async fn make_budget(
    admin: &mut JsonClient,
    tenant: &str,
    scope: &str,
) -> Result<(), CallError> {
    let allocated = json!({"unit": UNIT, "amount": ALLOCATED});
    let budget = json!({"tenant_id": tenant, "scope": scope, "unit": UNIT, "allocated": allocated});
    let operation = OperationId::CreateBudget;
    admin.post("making a budget", operation, &budget).await?;
    Ok(())
}
