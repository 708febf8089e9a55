//! The demo tenant: a tree of three budgets and a key, made through the admin API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::HeaderName;
use secrecy::SecretString;
use serde_json::json;
use url::Url;

use super::folder::Folder;
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operations::OperationId;
use crate::domain::dialect::Dialect;
use crate::tools::json_client::{CallError, JsonClient};

/// How long the API may take to become ready.
const START_LIMIT: Duration = Duration::from_secs(60);

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
    #[error("the API did not become ready within {START_LIMIT:?}")]
    NotReady,
    /// The API cannot be reached, or refused.
    #[error(transparent)]
    Call(#[from] CallError),
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
    if let Some(key) = folder.and_then(|folder| folder.read(KEY_FILE)) {
        let mut runtime = client(address, &dialect.header_names().api_key, &key)?;
        let path = format!("{}?tenant={TENANT}", OperationId::GetBalances.path());
        match runtime.get("the kept demo key", &path).await {
            Ok(_) => return Ok(key),
            Err(CallError::Refused {
                status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN,
                ..
            }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut admin = client(address, &ADMIN_KEY, admin_key)?;
    let tenant = json!({"tenant_id": TENANT, "name": "Demo"});
    let operation = OperationId::CreateTenant;
    admin.post("the demo tenant", operation, &tenant).await?;
    for (scope, tokens) in BUDGETS {
        let allocated = json!({"unit": "TOKENS", "amount": tokens});
        let budget =
            json!({"tenant_id": TENANT, "scope": scope, "unit": "TOKENS", "allocated": allocated});
        let operation = OperationId::CreateBudget;
        match admin.post("a demo budget", operation, &budget).await {
            // An earlier start made it.
            Err(CallError::Refused {
                status: StatusCode::CONFLICT,
                ..
            }) => {}
            made => drop(made?),
        }
    }
    let request = json!({"tenant_id": TENANT, "name": "demo key"});
    let operation = OperationId::CreateApiKey;
    let made = admin.post("the demo key", operation, &request).await?;
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

/// Waits until the API is ready, at most [`START_LIMIT`].
pub(super) async fn wait_until_ready(
    address: SocketAddr,
    admin_key: &SecretString,
) -> Result<(), DemoError> {
    let deadline = Instant::now() + START_LIMIT;
    let mut admin = client(address, &ADMIN_KEY, admin_key)?;
    while Instant::now() < deadline {
        if admin.is_ready().await {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(DemoError::NotReady)
}

/// A client of the API on this machine.
fn client(
    address: SocketAddr,
    key_header: &HeaderName,
    key: &SecretString,
) -> Result<JsonClient, CallError> {
    let url = Url::parse(&format!("http://{address}")).expect("an address makes a URL");
    JsonClient::new(Arc::new(url), key_header, key)
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
    async fn respond(State(calls): State<Calls>, request: Request) -> Response {
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
            .fallback(respond)
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
