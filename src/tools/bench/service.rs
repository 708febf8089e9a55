//! The service under test: makes a tenant through the admin plane, and reads its ledgers afterwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::sleep;
use url::Url;

use super::error::BenchError;
use super::ledger::{Difference, Totals, differences};
use super::requests::{UNIT, scope_paths};
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;
use crate::tools::http::{self, JsonClient};

/// The allocation of each budget: ample, and exact in 15 digits.
pub(super) const ALLOCATED: i64 = 900_000_000_000_000;

/// Reads are repeated for this long, because a service that failed may come back.
const READ_LIMIT: Duration = Duration::from_secs(15);

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
        let id = admin.make_tenant().await?;
        let scopes = scope_paths(&id, scopes);
        for scope in &scopes {
            admin.make_budget(&id, scope).await?;
        }
        let step = "making an API key";
        let request = json!({"tenant_id": id, "name": "load generator"});
        let made = admin
            .post(step, OperationId::CreateApiKey, &request)
            .await?;
        let secret = made["key_secret"]
            .as_str()
            .ok_or(BenchError::Unreadable { step })?;
        Ok(Tenant {
            key: SecretString::from(secret),
            id,
            scopes,
        })
    }

    /// Whether the service responds and reaches its store.
    pub async fn is_ready(&self) -> bool {
        let Ok(mut caller) = self.admin() else {
            return false;
        };
        let ready = caller.client.send(Method::GET, "/ready", None);
        matches!(ready.await, Ok((StatusCode::OK, _)))
    }

    /// A caller under the admin key.
    pub fn admin(&self) -> Result<Caller, BenchError> {
        let headers = http::headers(&ADMIN_KEY, &self.admin_key);
        let headers = headers.map_err(|_| BenchError::Key)?;
        let client = JsonClient::new(Arc::clone(&self.admin), headers);
        Ok(Caller { client })
    }

    /// A caller under the tenant's key.
    pub fn caller(&self, tenant: &Tenant) -> Result<Caller, BenchError> {
        let client = JsonClient::new(Arc::clone(&self.runtime), self.headers(tenant)?);
        Ok(Caller { client })
    }

    /// The headers of the tenant's requests.
    pub fn headers(&self, tenant: &Tenant) -> Result<HeaderMap, BenchError> {
        let key_header = &self.dialect.header_names().api_key;
        let headers = http::headers(key_header, &tenant.key);
        headers.map_err(|_| BenchError::Key)
    }

    /// Reads every ledger on both planes and compares it with the totals of the responses.
    pub async fn check(
        &self,
        tenant: &Tenant,
        totals: &Totals,
    ) -> Result<Vec<Difference>, BenchError> {
        let expected = totals.expected(ALLOCATED);
        let mut caller = self.caller(tenant)?;
        let source = OperationId::GetBalances.path();
        let path = format!("{source}?tenant={}&limit=200", tenant.id);
        let page = caller.get("reading the balances", &path).await?;
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

/// Sends single requests under one key.
pub(super) struct Caller {
    client: JsonClient,
}

impl Caller {
    /// Makes a tenant with a random id, and returns the id.
    pub async fn make_tenant(&mut self) -> Result<String, BenchError> {
        let id = format!("bench-{:012x}", rand::random::<u64>() >> 16);
        let tenant = json!({"tenant_id": id, "name": "load generator"});
        self.post("making a tenant", OperationId::CreateTenant, &tenant)
            .await?;
        Ok(id)
    }

    /// Makes an ample budget.
    pub async fn make_budget(&mut self, tenant: &str, scope: &str) -> Result<(), BenchError> {
        let allocated = json!({"unit": UNIT, "amount": ALLOCATED});
        let budget =
            json!({"tenant_id": tenant, "scope": scope, "unit": UNIT, "allocated": allocated});
        self.post("making a budget", OperationId::CreateBudget, &budget)
            .await
            .map(drop)
    }

    /// Posts once.
    pub async fn post(
        &mut self,
        step: &'static str,
        operation: OperationId,
        body: &Value,
    ) -> Result<Value, BenchError> {
        let path = operation.path();
        let sent = self.client.send(Method::POST, path, Some(body)).await;
        let (status, body) = sent.map_err(|source| BenchError::Unreachable { step, source })?;
        match status.is_success() {
            true => Ok(body),
            false => Err(refused(step, status, &body)),
        }
    }

    /// Sends a GET until the response is no 5xx, at most for [`READ_LIMIT`].
    pub async fn get(&mut self, step: &'static str, path: &str) -> Result<Value, BenchError> {
        let deadline = Instant::now() + READ_LIMIT;
        loop {
            let (failure, is_final) = match self.client.send(Method::GET, path, None).await {
                Ok((StatusCode::OK, body)) => return Ok(body),
                Ok((status, body)) => (refused(step, status, &body), !status.is_server_error()),
                Err(source) => (BenchError::Unreachable { step, source }, false),
            };
            if is_final || Instant::now() >= deadline {
                return Err(failure);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

fn refused(step: &'static str, status: StatusCode, body: &Value) -> BenchError {
    let text = |name: &str| body[name].as_str().unwrap_or("").to_owned();
    BenchError::Refused {
        step,
        status: status.as_u16(),
        code: text("error"),
        message: text("message"),
    }
}
