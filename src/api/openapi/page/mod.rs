//! What a person meets first: `/` says what this service is, `/docs` shows its description, `/v1/openapi.json` is that
//! description. The page has no script, and `page.html` escapes all texts of the description.

mod command;

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::document;
use crate::api::dialect::Dialect;
use crate::api::operations::OperationId;
use command::command;

const STYLE: &str = include_str!("style.css");

/// The pages of one dialect. They depend on nothing else, so a process renders them once.
struct Texts {
    json: String,
    page: String,
    identity: String,
    greeting: String,
}

impl Texts {
    /// Made for the first request, since it takes some 10 MB that most replicas never need; off the threads that serve
    /// connections.
    async fn served(dialect: Dialect) -> &'static Self {
        static SERVED: [OnceCell<Texts>; Dialect::ALL.len()] =
            [const { OnceCell::const_new() }; Dialect::ALL.len()];
        let make = async || {
            let made = spawn_blocking(move || Self::of(dialect)).await;
            made.expect("the description can be made, as the tests show")
        };
        SERVED[dialect as usize].get_or_init(make).await
    }

    fn of(dialect: Dialect) -> Self {
        let document = document(dialect);
        Self {
            json: document.to_string(),
            page: page(&document, dialect),
            identity: identity(dialect),
            greeting: greeting(dialect),
        }
    }
}

/// `/`, `/docs` and `/v1/openapi.json`. All are public: they show nothing that depends on a deployment's data.
pub fn router(dialect: Dialect) -> Router {
    Router::new()
        .route(
            "/",
            get(async move |headers: HeaderMap| {
                first_contact(Texts::served(dialect).await, &headers)
            }),
        )
        .route(
            "/v1/openapi.json",
            get(async move || cacheable("application/json", &Texts::served(dialect).await.json)),
        )
        .route(
            "/docs",
            get(async move || html_page(&Texts::served(dialect).await.page)),
        )
}

/// A summary of the service: JSON, or a page for a browser.
fn first_contact(texts: &'static Texts, headers: &HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).map(|value| value.as_bytes());
    let is_browser = accepted.is_some_and(|value| value.starts_with(b"text/html"));
    let mut response = match is_browser {
        true => html_page(&texts.greeting),
        false => cacheable("application/json", &texts.identity),
    };
    let vary = header::HeaderValue::from_static("accept");
    response.headers_mut().insert(header::VARY, vary);
    response
}

fn html_page(html: &'static str) -> Response {
    let policy = [(header::CONTENT_SECURITY_POLICY, content_policy())];
    (policy, cacheable("text/html; charset=utf-8", html)).into_response()
}

fn cacheable(content_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}

fn identity(dialect: Dialect) -> String {
    let identity = json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "dialect": dialect.as_str(),
        "docs": "/docs",
        "openapi": "/v1/openapi.json",
    });
    identity.to_string()
}

fn greeting(dialect: Dialect) -> String {
    render(json!({
        "title": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "dialect": dialect.as_str(),
        "style": STYLE,
    }))
}

/// The description as a page: an index, the operations of both planes in the order of the index, the schemas.
fn page(document: &Value, dialect: Dialect) -> String {
    let operations = OperationId::ALL.iter().map(|id| {
        let operation = id.operation();
        let path = operation.path_in(dialect);
        let method = operation.method.as_str().to_lowercase();
        let mut described = document["paths"][path.as_ref()][&method].clone();
        described["command"] = command(&path, &method, &described).into();
        described["path"] = path.into();
        described["method"] = method.into();
        described
    });
    render(json!({
        "title": "Budget Authority API",
        "style": STYLE,
        "document": document,
        "operations": operations.collect::<Vec<_>>(),
    }))
}

/// Renders `page.html`.
fn render(context: Value) -> String {
    let mut templates = Environment::new();
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    templates.set_undefined_behavior(UndefinedBehavior::Chainable);
    templates.add_filter("pretty", |json: Serde<Value>| format!("{:#}", *json));
    let page = include_str!("page.html");
    let rendered = templates.render_named_str("page.html", page, Serde(context));
    rendered.expect("the page can be rendered, as the tests show")
}

/// Only the page's own style applies, and nothing is fetched or run.
fn content_policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE));
        format!(
            "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    });
    &POLICY
}

#[cfg(test)]
mod tests;
