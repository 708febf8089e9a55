//! A tenant to play with: a tree of three budgets and a key, made by our own admin API.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::Method;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::send;
use super::folder::Folder;
use crate::domain::dialect::Dialect;

/// The demo tenant's id.
pub(super) const TENANT: &str = "demo";

/// Scope and tokens of each budget.
const BUDGETS: [(&str, i64); 3] = [
    ("tenant:demo", 1_000_000),
    ("tenant:demo/app:chat", 250_000),
    ("tenant:demo/app:chat/agent:helper", 50_000),
];

/// Where the key of the demo tenant is kept.
const KEY_FILE: &str = "demo-key";

/// The demo tenant could not be made.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The API did not become ready.
    #[error("the API did not become ready within {0:?}")]
    NotReady(Duration),
    /// The API cannot be reached.
    #[error("{step}: the API cannot be reached")]
    Http {
        /// What was being done.
        step: &'static str,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The API refused.
    #[error("{step}: the API answered {status}: {body}")]
    Refused {
        /// What was being done.
        step: &'static str,
        /// Its status.
        status: u16,
        /// Its body.
        body: Value,
    },
    /// The key cannot be kept.
    #[error("the demo key cannot be kept: {0}")]
    Keep(String),
}

/// Makes what is missing of the demo tenant, and returns its key: the one that an earlier start kept in the folder, if
/// that still works, else a new one.
pub(super) async fn prepare(
    address: SocketAddr,
    dialect: Dialect,
    admin_key: &SecretString,
    folder: Option<&Folder>,
) -> Result<SecretString, DemoError> {
    let admin = Admin { address, admin_key };
    if let Some(key) = folder.and_then(|folder| folder.read(KEY_FILE))
        && admin.works(&key, dialect).await?
    {
        return Ok(key);
    }
    let tenant = json!({"tenant_id": TENANT, "name": "Demo"});
    admin
        .post("the demo tenant", "/v1/admin/tenants", &tenant, &[200, 201])
        .await?;
    for (scope, tokens) in BUDGETS {
        let budget = json!({
            "tenant_id": TENANT,
            "scope": scope,
            "unit": "TOKENS",
            "allocated": {"unit": "TOKENS", "amount": tokens},
        });
        // 409: an earlier start has made it.
        admin
            .post("a demo budget", "/v1/admin/budgets", &budget, &[201, 409])
            .await?;
    }
    let step = "the demo key";
    let request = json!({"tenant_id": TENANT, "name": "demo key"});
    let made = admin
        .post(step, "/v1/admin/api-keys", &request, &[201])
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
    while Instant::now() < deadline {
        if let Ok((200, _)) = send(address, Method::GET, "/ready", &[], None).await {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(DemoError::NotReady(limit))
}

struct Admin<'a> {
    address: SocketAddr,
    admin_key: &'a SecretString,
}

impl Admin<'_> {
    async fn post(
        &self,
        step: &'static str,
        path: &str,
        body: &Value,
        expected: &[u16],
    ) -> Result<Value, DemoError> {
        let headers = [("x-admin-api-key", self.admin_key.expose_secret())];
        let sent = send(self.address, Method::POST, path, &headers, Some(body)).await;
        let (status, body) = sent.map_err(|source| DemoError::Http { step, source })?;
        match expected.contains(&status) {
            true => Ok(body),
            false => Err(DemoError::Refused { step, status, body }),
        }
    }

    /// Whether a key that was kept still opens the runtime plane.
    async fn works(&self, key: &SecretString, dialect: Dialect) -> Result<bool, DemoError> {
        let step = "the kept demo key";
        let headers = [(dialect.words().api_key_header, key.expose_secret())];
        let path = format!("/v1/balances?tenant={TENANT}");
        let sent = send(self.address, Method::GET, &path, &headers, None).await;
        let (status, body) = sent.map_err(|source| DemoError::Http { step, source })?;
        match status {
            200 => Ok(true),
            401 | 403 => Ok(false),
            _ => Err(DemoError::Refused { step, status, body }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use axum::extract::{Request, State};
    use axum::http::StatusCode;
    use axum::response::{IntoResponse, Response};
    use axum::{Router, body};

    use super::*;

    type Calls = Arc<Mutex<Vec<String>>>;

    /// Answers as the API would, and notes what it is asked.
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
