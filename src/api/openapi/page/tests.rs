//! The page as a browser without script gets it.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

async fn get_path(path: &str, accept: &str) -> (Response, String) {
    let request = Request::get(path).header("accept", accept);
    let request = request.body(Body::empty()).expect("a request");
    let response = router(Dialect::Service).oneshot(request).await;
    let (parts, body) = response.expect("a response").into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (Response::from_parts(parts, Body::empty()), text)
}

/// The tags of a page, without the marks around them.
fn tags(html: &str) -> Vec<&str> {
    let parts = html.split('<').skip(1);
    let tags = parts.map(|part| part.split_once('>').expect("the end of a tag").0);
    tags.collect()
}

/// The values of an attribute.
fn attributes<'t>(html: &'t str, name: &str) -> Vec<&'t str> {
    let mark = format!(" {name}=\"");
    let found = tags(html).into_iter();
    found
        .filter_map(|tag| tag.split_once(&mark)?.1.split('"').next())
        .collect()
}

#[tokio::test]
async fn the_pages_are_well_formed_and_load_and_run_nothing() {
    for path in ["/docs", "/"] {
        let (response, html) = get_path(path, "text/html,*/*;q=0.8").await;
        let header = |name: &str| response.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(header("content-type"), "text/html; charset=utf-8");
        assert_eq!(header("x-content-type-options"), "nosniff");
        let policy = header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains("script-src"));
        let mut open = Vec::new();
        for tag in tags(&html) {
            let name = tag.split([' ', '/']).find(|name| !name.is_empty());
            let name = name.expect("a name");
            let known = "!doctype html head meta title style body nav main section h1 h2 h3 h4 b a p small table tr td pre code";
            assert!(known.split(' ').any(|known| known == name), "{tag}");
            match tag.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed), "{tag}"),
                None if ["!doctype", "meta"].contains(&name) => {}
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        for foreign in ["@import", "url("] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }
}

#[tokio::test]
async fn every_link_of_the_page_leads_to_one_of_its_sections_or_to_the_description() {
    let (_, html) = get_path("/docs", "*/*").await;
    let all = attributes(&html, "id");
    let ids: BTreeSet<_> = all.iter().copied().collect();
    assert_eq!(ids.len(), all.len(), "an id is there twice");
    for id in OperationId::ALL {
        assert!(ids.contains(id.as_str()), "{id}");
    }
    let links = attributes(&html, "href");
    assert!(links.len() > 300, "{}", links.len());
    for link in links {
        let known = link.strip_prefix('#').is_some_and(|id| ids.contains(id));
        assert!(known || link == "/v1/openapi.json", "{link}");
    }
}

#[test]
fn every_operation_shows_the_command_that_calls_it_and_its_response() {
    for dialect in Dialect::ALL {
        let page = page(&document(dialect), dialect).replace("&#x2f;", "/");
        let header = dialect.words().api_key_header;
        assert!(page.contains(&format!("KEY=&quot;{header}: ")), "{header}");
        for id in OperationId::ALL {
            let section = page.split_once(&format!("<section id=\"{id}\">"));
            let section = section.and_then(|(_, rest)| rest.split_once("</section>"));
            let section = section.expect("a section").0;
            let (_, example) = section
                .split_once("<h4>Example</h4>\n")
                .expect("an example");
            assert!(example.starts_with("<pre>curl -sS"), "{example}");
            assert!(
                !example.contains("$URL/v1") && !example.contains("/{"),
                "{example}"
            );
            let blocks = example.matches("<pre>").count();
            assert_eq!(blocks == 1, example.contains("Response 204"), "{example}");
        }
    }
}

/// A backtick without a partner would show the rest of its text as code.
#[test]
fn backticks_come_in_pairs_in_each_paragraph() {
    fn check(value: &Value) {
        match value {
            Value::String(text) => {
                for paragraph in text.split("\n\n") {
                    assert_eq!(paragraph.matches('`').count() % 2, 0, "{paragraph}");
                }
            }
            Value::Array(values) => values.iter().for_each(check),
            Value::Object(members) => members.values().for_each(check),
            _ => {}
        }
    }
    for dialect in Dialect::ALL {
        check(&serde_json::to_value(document(dialect)).expect("JSON"));
    }
}

#[tokio::test]
async fn the_root_names_the_service_and_its_description() {
    for accept in ["*/*", "application/json"] {
        let (response, json) = get_path("/", accept).await;
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers()["vary"], "accept");
        let identity: Value = serde_json::from_str(&json).expect("JSON");
        let expected = json!({
            "name": "budget-authority", "version": env!("CARGO_PKG_VERSION"), "dialect": "service",
            "docs": "/docs", "openapi": "/v1/openapi.json",
        });
        assert_eq!(identity, expected);
    }
    assert!(identity(Dialect::Cycles).contains(r#""dialect":"cycles""#));
    let (_, html) = get_path("/", "text/html,application/xhtml+xml").await;
    assert!(html.contains("<a href=\"/docs\">/docs</a>"), "{html}");
}

#[tokio::test]
async fn the_document_is_served_as_json() {
    let (response, json) = get_path("/v1/openapi.json", "*/*").await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
}

#[test]
fn markup_in_a_text_stays_text() {
    let mut document = document(Dialect::Service);
    let id = OperationId::ALL[0];
    let path = id.operation().path_in(Dialect::Service);
    let method = id.operation().method.as_str().to_lowercase();
    let operation = &mut document["paths"][path.as_ref()][&method];
    for member in ["summary", "description"] {
        operation[member] = "<script>\"'&".into();
    }
    let html = page(&document, Dialect::Service);
    assert!(!tags(&html).contains(&"script"));
    assert!(html.contains("&lt;script&gt;"));
}
