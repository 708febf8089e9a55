//! The demo tenant: a tree of three budgets and a key, made through the admin API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName};
use hyper::{Method, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use super::folder::Folder;
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;
use crate::tools::http::{self, JsonClient, NoResponse};

/// The demo tenant's id.
pub(super) const TENANT: &str = "demo";

/// Scope and tokens of each budget.
const BUDGETS: [(&str, i64); 3] = [
    ("tenant:demo", 1_000_000),
    ("tenant:demo/app:chat", 250_000),
    ("tenant:demo/app:chat/agent:helper", 50_000),
];

/// The file of the demo tenant's key.
const KEY_FILE: &str = "demo-key";

/// Why the demo tenant could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The API did not become ready.
    #[error("the API did not become ready within {0:?}")]
    NotReady(Duration),
    /// The API cannot be reached.
    #[error("{step}: the API cannot be reached")]
    Http {
        /// What was made or checked.
        step: &'static str,
        /// The failure.
        #[source]
        source: NoResponse,
    },
    /// The API refused.
    #[error("{step}: the API responded {status}: {body}")]
    Refused {
        /// What was made or checked.
        step: &'static str,
        /// The status.
        status: StatusCode,
        /// The body.
        body: Value,
    },
    /// A key holds characters that a header must not hold.
    #[error("a key holds characters that a header must not hold")]
    Key,
    /// The key cannot be kept.
    #[error("the demo key cannot be kept: {0}")]
    Keep(String),
}

/// Makes the missing parts of the demo tenant and returns its key: the one that an earlier start kept in the folder, if it
/// still works, else a new one.
pub(super) async fn prepare(
    address: SocketAddr,
    dialect: Dialect,
    admin_key: &SecretString,
    folder: Option<&Folder>,
) -> Result<SecretString, DemoError> {
    let api = |header: &HeaderName, key: &SecretString| {
        let url = Arc::new(local_url(address));
        let headers = http::headers(header, key).map_err(|_| DemoError::Key)?;
        Ok::<_, DemoError>(Api(JsonClient::new(url, headers)))
    };
    if let Some(key) = folder.and_then(|folder| folder.read(KEY_FILE)) {
        let mut runtime = api(&dialect.header_names().api_key, &key)?;
        let path = format!("{}?tenant={TENANT}", OperationId::GetBalances.path());
        let balances = runtime.send(
            "the kept demo key",
            Method::GET,
            &path,
            None,
            &[200, 401, 403],
        );
        if balances.await?.0 == StatusCode::OK {
            return Ok(key);
        }
    }
    let mut admin = api(&ADMIN_KEY, admin_key)?;
    let tenant = json!({"tenant_id": TENANT, "name": "Demo"});
    admin
        .post(
            "the demo tenant",
            OperationId::CreateTenant,
            &tenant,
            &[200, 201],
        )
        .await?;
    for (scope, tokens) in BUDGETS {
        let budget = json!({
            "tenant_id": TENANT,
            "scope": scope,
            "unit": "TOKENS",
            "allocated": {"unit": "TOKENS", "amount": tokens},
        });
        // 409 when an earlier start made it.
        admin
            .post(
                "a demo budget",
                OperationId::CreateBudget,
                &budget,
                &[201, 409],
            )
            .await?;
    }
    let request = json!({"tenant_id": TENANT, "name": "demo key"});
    let made = admin
        .post("the demo key", OperationId::CreateApiKey, &request, &[201])
        .await?;
    let Some(secret) = made["key_secret"].as_str() else {
        return Err(DemoError::Keep("the API returned no key_secret".to_owned()));
    };
    let key = SecretString::from(secret);
    if let Some(folder) = folder {
        let kept = folder.write(KEY_FILE, &key);
        kept.map_err(|error| DemoError::Keep(error.to_string()))?;
    }
    Ok(key)
}

/// Waits until the API is ready, at most a minute.
pub(super) async fn wait_until_ready(address: SocketAddr) -> Result<(), DemoError> {
    let limit = Duration::from_secs(60);
    let deadline = Instant::now() + limit;
    let mut api = JsonClient::new(Arc::new(local_url(address)), HeaderMap::new());
    while Instant::now() < deadline {
        if let Ok((StatusCode::OK, _)) = api.send(Method::GET, "/ready", None).await {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(DemoError::NotReady(limit))
}

fn local_url(address: SocketAddr) -> Url {
    Url::parse(&format!("http://{address}")).expect("an address makes a URL")
}

/// The API under one key.
struct Api(JsonClient);

impl Api {
    async fn send(
        &mut self,
        step: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
        expected: &[u16],
    ) -> Result<(StatusCode, Value), DemoError> {
        let sent = self.0.send(method, path, body).await;
        let (status, body) = sent.map_err(|source| DemoError::Http { step, source })?;
        match expected.contains(&status.as_u16()) {
            true => Ok((status, body)),
            false => Err(DemoError::Refused { step, status, body }),
        }
    }

    async fn post(
        &mut self,
        step: &'static str,
        operation: OperationId,
        body: &Value,
        expected: &[u16],
    ) -> Result<Value, DemoError> {
        let sent = self.send(step, Method::POST, operation.path(), Some(body), expected);
        sent.await.map(|(_, body)| body)
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use axum::extract::{Request, State};
    use axum::http::StatusCode;
    use axum::response::{IntoResponse, Response};
    use axum::{Router, body};

    use super::*;

    type Calls = Arc<Mutex<Vec<String>>>;

    /// Responds as the API would, and records the requests.
    async fn answer(State(calls): State<Calls>, request: Request) -> Response {
        let path = request.uri().to_string();
        let has_key = request
            .headers()
            .get("x-service-api-key")
            .is_some_and(|key| key == "sk_live_kept");
        let bytes = body::to_bytes(request.into_body(), 10_000)
            .await
            .expect("a body");
        let (status, body) = match path.as_str() {
            "/v1/admin/api-keys" => (StatusCode::CREATED, r#"{"key_secret":"sk_live_kept"}"#),
            "/v1/balances?tenant=demo" if has_key => (StatusCode::OK, "{}"),
            "/v1/balances?tenant=demo" => (StatusCode::UNAUTHORIZED, "{}"),
            "/v1/admin/budgets" => (StatusCode::CONFLICT, "{}"),
            _ => (StatusCode::CREATED, "{}"),
        };
        let note = format!("{path} {}", String::from_utf8_lossy(&bytes));
        calls.lock().expect("no panic").push(note);
        (status, body).into_response()
    }

    #[tokio::test]
    async fn the_tenant_is_made_once_and_its_key_kept() {
        let calls = Calls::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("bound");
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&calls));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let folder = Folder::open(Path::new("unused"), true).expect("a folder");
        let admin_key = SecretString::from("admin");
        let prepare = || prepare(address, Dialect::Service, &admin_key, Some(&folder));

        let key = prepare().await.expect("it is made");
        assert_eq!(key.expose_secret(), "sk_live_kept");
        let made = std::mem::take(&mut *calls.lock().expect("no panic"));
        assert_eq!(made.len(), 5, "a tenant, three budgets, a key: {made:?}");
        assert_eq!(
            made[0],
            r#"/v1/admin/tenants {"name":"Demo","tenant_id":"demo"}"#
        );
        assert!(
            made[3].contains("tenant:demo/app:chat/agent:helper"),
            "{made:?}"
        );

        assert_eq!(
            prepare().await.expect("it is found").expose_secret(),
            "sk_live_kept"
        );
        assert_eq!(
            *calls.lock().expect("no panic"),
            ["/v1/balances?tenant=demo "]
        );
        server.abort();
    }
}
