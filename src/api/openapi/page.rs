//! Serves the document, and a page that shows it to people.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::document;
use crate::api::dialect::Dialect;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// `/v1/openapi.json` and `/docs`. Both are public: they tell nothing that depends on a deployment's data.
pub fn router(dialect: Dialect) -> Router {
    let json: Arc<str> = document(dialect).to_string().into();
    let html: Arc<str> = page().into();
    let policy: Arc<str> = content_policy().into();
    Router::new()
        .route(
            "/v1/openapi.json",
            get(async move || cacheable("application/json", &json)),
        )
        .route(
            "/docs",
            get(async move || {
                let policy = [(header::CONTENT_SECURITY_POLICY, policy.to_string())];
                (policy, cacheable("text/html; charset=utf-8", &html))
            }),
        )
}

fn cacheable(content_type: &'static str, text: &str) -> impl IntoResponse + use<> {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text.to_owned())
}

fn page() -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Budget Authority API</title>\n<style>{STYLE}</style>\n\
         <body>\n<nav id=\"index\"></nav>\n<main id=\"main\"><noscript>This page needs JavaScript; \
         the description itself is at <a href=\"/v1/openapi.json\">/v1/openapi.json</a>.</noscript></main>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// Only the page's own script and style run, and only the document is fetched.
fn content_policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; connect-src 'self'; script-src {}; style-src {}; base-uri 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use axum::response::Response;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn get_path(path: &str) -> (Response, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let (parts, body) = router(Dialect::Service)
            .oneshot(request)
            .await
            .unwrap()
            .into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (
            Response::from_parts(parts, Body::empty()),
            String::from_utf8(bytes.to_vec()).unwrap(),
        )
    }

    #[tokio::test]
    async fn the_page_loads_nothing_from_elsewhere() {
        let (response, html) = get_path("/docs").await;
        assert_eq!(
            response.headers()["content-type"],
            "text/html; charset=utf-8"
        );
        let policy = response.headers()["content-security-policy"]
            .to_str()
            .unwrap();
        assert!(policy.starts_with("default-src 'none'; connect-src 'self'; script-src 'sha256-"));
        for foreign in [
            "http://",
            "https://",
            "//cdn",
            "src=",
            "@import",
            "innerHTML",
        ] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }

    #[tokio::test]
    async fn the_document_is_served_as_json() {
        let (response, json) = get_path("/v1/openapi.json").await;
        assert_eq!(response.headers()["content-type"], "application/json");
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
    }
}
