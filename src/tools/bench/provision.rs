//! Makes what the load needs, through the admin plane, and reads the ledgers afterwards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::connection::Connection;
use super::error::BenchError;
use super::ledger::{Difference, Sums, Told, differences};
use super::requests::{UNIT, headers, scope_paths};
use super::target::Target;
use crate::api::dialect::headers::ADMIN_KEY;
use crate::domain::dialect::Dialect;

/// What each budget may spend: ample, and within what 15 digits hold.
pub(super) const ALLOCATED: i64 = 900_000_000_000_000;

/// Reads are repeated for this long, because the service may be about to come back.
const READ_LIMIT: Duration = Duration::from_secs(15);

/// Where the service is and how it is called.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub runtime: Arc<Target>,
    pub admin: Arc<Target>,
    pub admin_key: SecretString,
    pub dialect: Dialect,
}

/// A tenant of our own, with one key and one budget per scope.
#[derive(Debug)]
pub(super) struct Tenant {
    pub id: String,
    pub key: SecretString,
    /// Full paths, root first.
    pub scopes: Vec<String>,
}

impl Service {
    /// Makes a tenant with a random name, its key and its budgets. They stay; nobody has the key afterwards.
    pub async fn provision(&self, scopes: u8) -> Result<Tenant, BenchError> {
        let id = format!("bench-{:012x}", rand::random::<u64>() >> 16);
        let mut admin = self.admin()?;
        let tenant = json!({"tenant_id": id, "name": "load generator"});
        admin
            .post("making a tenant", "/v1/admin/tenants", &tenant)
            .await?;
        let scopes = scope_paths(&id, scopes);
        for scope in &scopes {
            let allocated = json!({"unit": UNIT, "amount": ALLOCATED});
            let budget =
                json!({"tenant_id": id, "scope": scope, "unit": UNIT, "allocated": allocated});
            admin
                .post("making a budget", "/v1/admin/budgets", &budget)
                .await?;
        }
        let step = "making an API key";
        let request = json!({"tenant_id": id, "name": "load generator"});
        let made = admin.post(step, "/v1/admin/api-keys", &request).await?;
        let secret = made["key_secret"]
            .as_str()
            .ok_or(BenchError::Unreadable { step })?;
        Ok(Tenant {
            key: SecretString::from(secret),
            id,
            scopes,
        })
    }

    /// Whether it answers, and reaches its store.
    pub async fn is_ready(&self) -> bool {
        let Ok(mut caller) = self.admin() else {
            return false;
        };
        let asked = caller.send(
            "asking whether it is ready",
            Method::GET,
            "/ready",
            String::new(),
        );
        matches!(asked.await, Ok((StatusCode::OK, _)))
    }

    /// A caller under the tenant's key.
    pub fn caller(&self, tenant: &Tenant) -> Result<Caller, BenchError> {
        Ok(Caller {
            connection: Connection::new(Arc::clone(&self.runtime)),
            headers: self.headers(tenant)?,
            base: self.runtime.base.clone(),
        })
    }

    /// The headers of the tenant's requests.
    pub fn headers(&self, tenant: &Tenant) -> Result<HeaderMap, BenchError> {
        headers(
            &self.runtime,
            &self.dialect.header_names().api_key,
            &tenant.key,
        )
        .map_err(|_| BenchError::Key)
    }

    /// Reads every ledger on both planes and compares it with what the answers said.
    pub async fn check(&self, tenant: &Tenant, sums: &Sums) -> Result<Vec<Difference>, BenchError> {
        #[derive(Deserialize)]
        struct Balances {
            balances: Vec<Told>,
        }
        let expected = sums.expected(ALLOCATED);
        let step = "reading the balances";
        let mut caller = self.caller(tenant)?;
        let path = format!("/v1/balances?tenant={}&limit=200", tenant.id);
        let page: Balances = caller.get(step, &path).await?;
        let told: Vec<_> = page.balances.iter().map(of_told).collect();
        let mut found = differences("GET /v1/balances", &tenant.scopes, expected, &told);

        let step = "looking up a budget";
        let mut admin = self.admin()?;
        let mut told = Vec::new();
        for scope in &tenant.scopes {
            let query: String = url::form_urlencoded::Serializer::new(String::new())
                .append_pair("scope", scope)
                .append_pair("unit", UNIT)
                .finish();
            let path = format!("/v1/admin/budgets/lookup?{query}");
            told.push(of_told(&admin.get(step, &path).await?));
        }
        let source = "GET /v1/admin/budgets/lookup";
        found.extend(differences(source, &tenant.scopes, expected, &told));
        Ok(found)
    }

    /// A caller under the admin key.
    pub fn admin(&self) -> Result<Caller, BenchError> {
        let headers = headers(&self.admin, &ADMIN_KEY, &self.admin_key);
        Ok(Caller {
            connection: Connection::new(Arc::clone(&self.admin)),
            headers: headers.map_err(|_| BenchError::Key)?,
            base: self.admin.base.clone(),
        })
    }
}

fn of_told(told: &Told) -> (String, super::ledger::Figures) {
    (told.path().to_owned(), told.figures())
}

/// Sends single requests under one key.
pub(super) struct Caller {
    connection: Connection,
    headers: HeaderMap,
    base: String,
}

impl Caller {
    /// Posts once.
    pub async fn post(
        &mut self,
        step: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<Value, BenchError> {
        let (status, body) = self
            .send(step, Method::POST, path, body.to_string())
            .await?;
        match status.is_success() {
            true => Ok(body),
            false => Err(refused(step, status, &body)),
        }
    }

    /// Asks until there is an answer that is not a 5xx, at most for [`READ_LIMIT`].
    pub async fn get<T: serde::de::DeserializeOwned>(
        &mut self,
        step: &'static str,
        path: &str,
    ) -> Result<T, BenchError> {
        let deadline = Instant::now() + READ_LIMIT;
        loop {
            let failure = match self.send(step, Method::GET, path, String::new()).await {
                Ok((StatusCode::OK, body)) => {
                    return serde_json::from_value(body)
                        .map_err(|_| BenchError::Unreadable { step });
                }
                Ok((status, body)) if !status.is_server_error() => {
                    return Err(refused(step, status, &body));
                }
                Ok((status, body)) => refused(step, status, &body),
                Err(failure) => failure,
            };
            if Instant::now() >= deadline {
                return Err(failure);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn send(
        &mut self,
        step: &'static str,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<(StatusCode, Value), BenchError> {
        let path = format!("{}{path}", self.base);
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| BenchError::Unreadable { step })?;
        *request.headers_mut() = self.headers.clone();
        let sent = self.connection.send(request).await;
        let reply = sent.map_err(|source| BenchError::Unreachable { step, source })?;
        Ok((
            reply.status,
            serde_json::from_slice(&reply.body).unwrap_or_default(),
        ))
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
