//! Sessions: who reads the pages. A key is posted once; then a random cookie stands for it, of which Redis has the digest.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::json;
use tokio::time::timeout;

use super::Console;
use super::forms::{Form, query_of};
use super::operations::Operations;
use super::render::{refusal, render};
use crate::api::auth::access::Access;
use crate::api::auth::client_address::client_of;
use crate::api::dialect::headers;
use crate::api::operations::OperationId;
use crate::domain::api_key::secret::{ApiKeyText, KeyHash};
use crate::domain::caller::Caller;
use crate::store::{SESSION_MS, StoreError};

/// The prefix makes browsers refuse the cookie from other hosts, for a part of the paths, and without TLS except on loopback.
const COOKIE: &str = "__Host-budget-console";

/// Where a browser says what made it send a request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The longest form, in bytes: a reason of 512 characters, each of which may take twelve, and scopes.
const FORM_MAX: usize = 16 * 1024;

/// A form that a page of the console sent; other pages must not act for its reader.
pub(super) struct Posted(pub Form);

impl FromRequest<Arc<Console>> for Posted {
    type Rejection = Response;

    async fn from_request(request: Request, console: &Arc<Console>) -> Result<Self, Response> {
        let site = request.headers().get(FETCH_SITE);
        if site.is_none_or(|site| site != "same-origin") {
            let message = match site {
                Some(_) => "Open the page itself, and send its form from there.",
                // Browsers name the site only where nobody can listen.
                None => "Open the console over HTTPS, or on this machine as 127.0.0.1.",
            };
            return Err(refusal(StatusCode::FORBIDDEN, message));
        }
        let body = to_bytes(request.into_body(), FORM_MAX);
        match timeout(console.state.body_limits.time, body).await {
            Ok(Ok(body)) => Ok(Self(Form::parse(&body))),
            Ok(Err(_)) => {
                let message = format!("A form has at most {FORM_MAX} bytes.");
                Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &message))
            }
            Err(_) => Err(refusal(
                StatusCode::REQUEST_TIMEOUT,
                "The form did not arrive in time.",
            )),
        }
    }
}

/// The reader of a page, and what they may call.
pub(super) struct Reader {
    pub operations: Operations,
    /// `None` for an operator.
    pub tenant: Option<String>,
    /// Name or id of the key.
    pub name: String,
    /// By the clock of Redis, in milliseconds.
    pub now_ms: i64,
    /// Path of the page.
    pub path: String,
}

/// A cookie: a random text, and the holder of the key that it stands for.
struct Cookie<'a> {
    holder: &'a str,
    digest: KeyHash,
}

impl<'a> Cookie<'a> {
    fn of(headers: &'a HeaderMap) -> Option<Self> {
        let lines = headers.get_all(header::COOKIE).iter();
        let mut pairs = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'));
        let value = pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))?;
        let (_, holder) = value.split_once('.')?;
        Some(Self {
            holder,
            digest: KeyHash::of(value),
        })
    }
}

impl FromRequestParts<Arc<Console>> for Reader {
    type Rejection = Response;

    /// Without a session, to the login, and from there back.
    async fn from_request_parts(
        parts: &mut Parts,
        console: &Arc<Console>,
    ) -> Result<Self, Response> {
        let caller = console.caller(&parts.headers).await;
        let caller =
            caller.map_err(|error| refusal(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()))?;
        let Some(caller) = caller else {
            // From another site, browsers withhold the cookie; the page's own reload has it.
            let site = parts.headers.get(FETCH_SITE);
            if parts.method == Method::GET && site.is_some_and(|site| site == "cross-site") {
                let page = json!({"title": "Opening the console"});
                return Err(render(StatusCode::OK, "reload.html", page));
            }
            // A form that was sent too late is not sent again.
            let page = parts
                .uri
                .path_and_query()
                .filter(|_| parts.method == Method::GET);
            let to = page.map_or("/console", |path| path.as_str());
            let login = format!("/console/login?{}", query_of(&[("to", to)]));
            // A part of a page is fetched by script, which must leave the page as a whole.
            return Err(match parts.headers.contains_key("hx-request") {
                true => ([("hx-redirect", login)], "").into_response(),
                false => Redirect::to(&login).into_response(),
            });
        };
        let state = &console.state;
        let (holder, _) = Access::holder_of(&caller);
        let name = holder.split_once(':').map_or("", |(_, name)| name);
        Ok(Self {
            tenant: caller.as_tenant().map(|caller| caller.tenant.to_string()),
            name: name.to_owned(),
            now_ms: state.store.clock().now_ms(),
            path: parts.uri.path().to_owned(),
            operations: Operations::new(
                console.operations.clone(),
                state.dialect,
                parts,
                Some(caller),
            ),
        })
    }
}

impl Console {
    /// The holder of the session that a cookie names.
    async fn caller(&self, headers: &HeaderMap) -> Result<Option<Caller>, StoreError> {
        let Some(cookie) = Cookie::of(headers) else {
            return Ok(None);
        };
        let (store, access) = (&self.state.store, &self.state.access);
        match store.session(cookie.holder, cookie.digest.as_str()).await? {
            Some(key_hash) => access.resume(cookie.holder, &key_hash).await,
            None => Ok(None),
        }
    }
}

/// The login; whoever is logged in, with a key that has not ended, goes on. With `new`, the browser has just logged in, and has kept no
/// cookie.
pub(super) async fn form(
    State(console): State<Arc<Console>>,
    parts: Parts,
    query: Form,
) -> Response {
    if let Ok(Some(caller)) = console.caller(&parts.headers).await {
        let (operations, dialect) = (console.operations.clone(), console.state.dialect);
        let operations = Operations::new(operations, dialect, &parts, Some(caller));
        let known = operations.get(OperationId::IntrospectAuth, "", &[]).await;
        if known.is_ok() {
            return Redirect::to(page_of(&query["to"])).into_response();
        }
    }
    let problem = match query["new"].is_empty() {
        true => "",
        false => {
            "Your browser did not store the session cookie. Open the console over HTTPS, or on this machine as 127.0.0.1."
        }
    };
    login(StatusCode::OK, &query["to"], problem)
}

/// Where a login leads: to a page of the console alone.
fn page_of(to: &str) -> &str {
    let is_page = to.starts_with("/console/") || to.starts_with("/console?");
    let is_page = is_page && !to.contains(|c: char| c.is_control());
    if is_page { to } else { "/console" }
}

fn login(status: StatusCode, to: &str, problem: &str) -> Response {
    render(
        status,
        "login.html",
        json!({"title": "Log in", "to": to, "problem": problem}),
    )
}

/// Logs in with an admin key or an API key.
pub(super) async fn log_in(
    State(console): State<Arc<Console>>,
    parts: Parts,
    Posted(form): Posted,
) -> Response {
    let key = form["key"].trim();
    let (state, dialect) = (&console.state, console.state.dialect);
    let is_api_key = ApiKeyText::parse(key, dialect.words().api_key_prefixes).is_some();
    let header = match is_api_key {
        true => dialect.header_names().api_key.clone(),
        false => headers::ADMIN_KEY,
    };
    // So that wrong keys are counted, slowed down and audited as everywhere.
    let mut operations = Operations::new(console.operations.clone(), dialect, &parts, None);
    operations.header(header, key);
    if let Err(refused) = operations.get(OperationId::IntrospectAuth, "", &[]).await {
        let message = match refused.status {
            StatusCode::UNAUTHORIZED => "This key is unknown, revoked or expired.",
            _ => &refused.message,
        };
        return login(refused.status, &form["to"], message);
    }
    let caller = match is_api_key {
        true => state.access.runtime_caller(key).await.map(Caller::Tenant),
        false => {
            let client = client_of(&state.trusted_proxies, &parts);
            state.access.admin_caller(key, client).map(Caller::Admin)
        }
    };
    let opened = match caller {
        Ok(caller) => {
            let (holder, key_hash) = Access::holder_of(&caller);
            let cookie = format!("{:032x}.{holder}", rand::random::<u128>());
            let digest = KeyHash::of(&cookie);
            let opened = state
                .store
                .open_session(&holder, digest.as_str(), key_hash.as_str());
            opened
                .await
                .map(|()| cookie)
                .map_err(|error| error.to_string())
        }
        Err(error) => Err(error.message()),
    };
    match opened {
        Ok(cookie) => {
            let seconds = SESSION_MS / 1_000;
            let cookie = format!(
                "{COOKIE}={cookie}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict"
            );
            let to = format!(
                "/console/login?{}",
                query_of(&[("new", "1"), ("to", &form["to"])])
            );
            ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
        }
        Err(message) => login(StatusCode::SERVICE_UNAVAILABLE, &form["to"], &message),
    }
}

/// Ends the session.
pub(super) async fn log_out(
    State(console): State<Arc<Console>>,
    headers: HeaderMap,
    _: Posted,
) -> Response {
    if let Some(cookie) = Cookie::of(&headers)
        && let Err(error) = console
            .state
            .store
            .end_session(cookie.holder, cookie.digest.as_str())
            .await
    {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("You are still logged in: {error}"),
        );
    }
    let gone = format!("{COOKIE}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict");
    ([(header::SET_COOKIE, gone)], Redirect::to("/console/login")).into_response()
}
