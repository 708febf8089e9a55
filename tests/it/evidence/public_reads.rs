//! `GET /v1/evidence/{evidence_id}` and the key set, which anybody may read.

use std::time::Duration;

use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::ids::EvidenceId;
use budget_authority::evidence::{Disposition, Keys, verify};
use budget_authority::store::{Lane, RedisOptions, Store};
use reqwest::Method;

use crate::harness::app::TestApp;
use crate::harness::evidence_keys::{SERVER_ID, issuers, listed, settings, signed};
use crate::harness::redis::{RedisServer, shared};
use crate::harness::redis_fixture::now_ms;
use crate::harness::{eventually, store_with};

const KEY_SET: &str = "/v1/.well-known/service-jwks.json";

/// A service with evidence, and an envelope in its store.
pub(super) struct PublishedEnvelope {
    pub(super) app: TestApp,
    id: EvidenceId,
    bytes: String,
}

impl PublishedEnvelope {
    pub(super) async fn new(more: &[&str]) -> Self {
        let own = settings('a');
        let words: Vec<&str> = own
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect();
        let app = TestApp::spawn_on(&shared().url(), &words).await;
        let (id, bytes) = signed(
            &issuers(&[listed('a', 0, None)]),
            'a',
            now_ms(&app.store).await,
        );
        Self::keep(&app.store, &id, &bytes, None).await;
        Self { app, id, bytes }
    }

    pub(super) async fn keep(store: &Store, id: &EvidenceId, bytes: &str, ttl_ms: Option<i64>) {
        let envelopes = [(id.clone(), bytes.to_owned())];
        store
            .write_envelopes(&envelopes, ttl_ms)
            .await
            .expect("it is stored");
    }

    pub(super) fn path(&self) -> String {
        path_of(self.id.as_str())
    }

    pub(super) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> reqwest::Response {
        send(&self.app, Method::GET, path, headers).await
    }
}

pub(super) fn path_of(id: &str) -> String {
    format!("/v1/evidence/{id}")
}

async fn send(
    app: &TestApp,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> reqwest::Response {
    let mut request = app.request(method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.expect("a response")
}

pub(super) fn header<'a>(response: &'a reqwest::Response, name: &str) -> Option<&'a str> {
    response
        .headers()
        .get(name)
        .map(|value| value.to_str().expect("text"))
}

#[tokio::test]
async fn e17_the_stored_bytes_are_served_verbatim_and_verify() {
    let published = PublishedEnvelope::new(&[]).await;
    let response = published.get(&published.path(), &[]).await;
    assert_eq!(response.status(), 200);
    let tag = format!("\"{}\"", published.id);
    for (name, value) in [
        ("content-type", "application/json"),
        ("etag", &tag),
        ("access-control-allow-origin", "*"),
    ] {
        assert_eq!(header(&response, name), Some(value), "{name}");
    }
    assert!(header(&response, "x-request-id").is_some());
    assert!(header(&response, "x-service-trace-id").is_some());
    assert_eq!(header(&response, "x-service-tenant"), None);
    assert_eq!(header(&response, "x-ratelimit-remaining"), None);
    let bytes = response.bytes().await.expect("a body");
    assert_eq!(bytes, published.bytes.as_bytes());

    let set = published.get(KEY_SET, &[]).await;
    assert_eq!(set.status(), 200);
    assert_eq!(header(&set, "cache-control"), Some("public, max-age=300"));
    let set = set.bytes().await.expect("a body");
    let verified = verify(&bytes, Keys::Set(&set), None, Some(SERVER_ID));
    assert_eq!(verified.disposition, Disposition::Authentic, "{verified:?}");
}

#[tokio::test]
async fn e30_the_command_verifies_what_the_service_publishes() {
    let published = PublishedEnvelope::new(&[]).await;
    let url = |path: &str| format!("http://{}{path}", published.app.address);
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    command.args(["evidence", "verify", &url(&published.path())]);
    command.args(["--jwks", &url(KEY_SET), "--server-id", SERVER_ID]);
    let ended = command.output().await.expect("it is built");
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{ended:?}");
    assert!(text.contains("authentic"), "{text}");
}

#[tokio::test]
async fn e17_head_and_a_matching_etag_have_no_body() {
    let published = PublishedEnvelope::new(&[]).await;
    for path in [published.path(), KEY_SET.to_owned()] {
        let head = send(&published.app, Method::HEAD, &path, &[]).await;
        assert_eq!(head.status(), 200, "{path}");
        assert!(header(&head, "content-length").is_some_and(|length| length != "0"));
        assert_eq!(head.bytes().await.expect("nothing").len(), 0);
    }
    let tag = format!("W/\"{}\"", published.id);
    let known = published
        .get(&published.path(), &[("if-none-match", &tag)])
        .await;
    assert_eq!(known.status(), 304);
    assert!(header(&known, "cache-control").is_some_and(|value| value.contains("immutable")));
    let unknown = published
        .get(&published.path(), &[("if-none-match", "\"x\"")])
        .await;
    assert_eq!(unknown.status(), 200);
}

#[tokio::test]
async fn e17_an_absent_envelope_is_not_found_and_not_cached() {
    let published = PublishedEnvelope::new(&[]).await;
    let absent = published.get(&path_of(&"0".repeat(64)), &[]).await;
    assert_eq!(header(&absent, "cache-control"), Some("no-store"));
    let request = published
        .app
        .request(Method::GET, &path_of(&"0".repeat(64)));
    published.app.send(request).await.refused(404, "NOT_FOUND");
    // It may be there a moment later.
    let store = &published.app.store;
    let (id, bytes) = signed(&issuers(&[listed('a', 0, None)]), 'a', 7);
    assert_eq!(
        store
            .envelopes_found(&[id.clone(), published.id.clone()])
            .await
            .expect("found"),
        [Some(false), Some(true)]
    );
    PublishedEnvelope::keep(store, &id, &bytes, Some(60_000)).await;
    assert_eq!(
        published.get(&path_of(id.as_str()), &[]).await.status(),
        200
    );
}

/// Strangers, requests, and lists each have connections of their own.
#[tokio::test]
async fn e17_reads_and_lists_do_not_wait_for_each_other() {
    let server = RedisServer::start();
    let mut options = RedisOptions::new(server.url());
    (options.background_connections, options.connections) = (1, 1);
    options.timeout = Duration::from_secs(20);
    let store = store_with(options);
    let (id, bytes) = signed(&issuers(&[listed('a', 0, None)]), 'a', 5);
    PublishedEnvelope::keep(&store, &id, &bytes, None).await;
    let clients = || server.run::<String>(&["CLIENT", "LIST"]).lines().count();
    store
        .ping(Duration::from_secs(10))
        .await
        .expect("it responds");
    let before = clients();
    store.envelope(&id).await.expect("read").expect("found");
    assert_eq!(clients(), before + 1, "a connection of its own");
    let busy = store.clone();
    let waiting = tokio::spawn(async move {
        let mut command = redis::cmd("BLPOP");
        command.arg("nothing").arg(0);
        let _ = busy.send(Lane::Background, ("nothing", &command)).await;
    });
    eventually("the connection waits for nothing", || async {
        let clients: String = server.run(&["INFO", "clients"]);
        clients
            .contains("blocked_clients:1")
            .then_some(())
            .ok_or(clients)
    })
    .await;
    let read = tokio::time::timeout(Duration::from_secs(10), store.envelope(&id)).await;
    assert_eq!(
        read.expect("it waits for nobody").expect("read"),
        Some(bytes.into_bytes())
    );
    waiting.abort();
}

#[tokio::test]
async fn e18_while_it_is_off_nothing_is_published_and_a_malformed_id_is_400() {
    for (app, key_set) in TestApp::spawn_both()
        .await
        .into_iter()
        .zip([KEY_SET, "/v1/.well-known/cycles-jwks.json"])
    {
        for path in [path_of(&"a".repeat(64)), key_set.to_owned()] {
            let raw = send(&app, Method::GET, &path, &[]).await;
            assert_eq!(header(&raw, "cache-control"), Some("no-store"), "{path}");
            assert_eq!(
                header(&raw, "access-control-allow-origin"),
                Some("*"),
                "{path}"
            );
            app.send(app.request(Method::GET, &path))
                .await
                .refused(404, "NOT_FOUND");
        }
        for id in ["x", &"A".repeat(64), &"a".repeat(65), "%ff"] {
            let response = app.send(app.request(Method::GET, &path_of(id))).await;
            let response = response.refused(400, "INVALID_REQUEST");
            assert!(
                response.text("message").contains("evidence_id"),
                "{response:?}"
            );
        }
    }
}

#[tokio::test]
async fn e18_retired_keys_are_published_without_a_present_one() {
    let more = ["--evidence-exp-ms", "5"];
    let published = PublishedEnvelope::new(&more).await;
    assert_eq!(published.get(&published.path(), &[]).await.status(), 200);
    let set = published
        .get(KEY_SET, &[])
        .await
        .text()
        .await
        .expect("text");
    assert!(set.contains("\"service_exp_ms\":5"), "{set}");
}

#[tokio::test]
async fn e25_keys_are_ignored_and_a_wrong_method_needs_none() {
    let published = PublishedEnvelope::new(&[]).await;
    let app = &published.app;
    for path in [published.path(), KEY_SET.to_owned()] {
        for sent in [
            &[("X-Service-API-Key", "garbage")][..],
            &[("X-Admin-API-Key", "garbage")],
            &[("X-Service-API-Key", "a"), ("X-Admin-API-Key", "b")],
            &[("Authorization", "Bearer x")],
            &[(app.names.key, app.keys[0].as_str())],
        ] {
            let response = published.get(&path, sent).await;
            assert_eq!(response.status(), 200, "{path} {sent:?}");
            assert_eq!(header(&response, app.names.tenant), None, "{sent:?}");
        }
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            let response = app.send(app.request(method.clone(), &path)).await;
            let response = response.refused(405, "INVALID_REQUEST");
            assert_eq!(
                response.header("allow"),
                Some("GET,HEAD"),
                "{method} {path}"
            );
        }
    }
    // Beside them, a path without a key is still refused.
    for path in ["/v1/evidence", "/v1/.well-known/other.json", "/v1/balances"] {
        app.send(app.request(Method::GET, path))
            .await
            .refused(401, "UNAUTHORIZED");
    }
}

#[tokio::test]
async fn e26_a_client_is_limited_on_these_paths_only() {
    let more = [
        "--evidence-requests-per-minute",
        "4",
        "--trusted-proxies",
        "127.0.0.0/8",
    ];
    let published = PublishedEnvelope::new(&more).await;
    let app = &published.app;
    let client = [("x-forwarded-for", "203.0.113.9")];
    let malformed = path_of("x");
    let path = published.path();
    // Another minute may begin in between, with its own count.
    let refused = eventually("it is refused", || async {
        for sent in [KEY_SET, &malformed, &path] {
            let response = published.get(sent, &client).await;
            if response.status() == 429 {
                return Some(response);
            }
        }
        None
    })
    .await;
    let number = |name: &str| header(&refused, name).and_then(|text| text.parse::<u64>().ok());
    assert!(number("retry-after").is_some_and(|seconds| (1..=60).contains(&seconds)));
    let reset = number("x-ratelimit-reset").expect("a time");
    let now = u64::try_from(now_ms(&app.store).await / 1000).expect("a time");
    assert!(
        reset.is_multiple_of(60) && (now - 1..=now + 60).contains(&reset),
        "{reset} {now}"
    );
    assert_eq!(header(&refused, "x-ratelimit-remaining"), Some("0"));
    assert_eq!(header(&refused, "access-control-allow-origin"), Some("*"));
    let body: serde_json::Value = refused.json().await.expect("JSON");
    assert_eq!(body["error"], "LIMIT_EXCEEDED");
    // Others, and the same one elsewhere, are served.
    let other = published
        .get(&path, &[("x-forwarded-for", "203.0.113.10")])
        .await;
    assert_eq!(other.status(), 200);
    app.get("/v1/balances?tenant=acme").await.expect(200);
}

#[tokio::test]
async fn e26_the_limit_can_be_off() {
    let published = PublishedEnvelope::new(&["--evidence-requests-per-minute", "0"]).await;
    for _ in 0..320 {
        assert_eq!(published.get(KEY_SET, &[]).await.status(), 200);
    }
}

#[tokio::test]
async fn e27_pages_of_any_origin_may_read_evidence() {
    let published = PublishedEnvelope::new(&["--cors-origins", "https://app.example"]).await;
    let origin = ("origin", "https://verifier.example");
    for path in [
        published.path(),
        path_of(&"0".repeat(64)),
        KEY_SET.to_owned(),
    ] {
        let response = published.get(&path, &[origin]).await;
        let allowed = response.headers().get_all("access-control-allow-origin");
        let allowed: Vec<_> = allowed.iter().collect();
        assert_eq!(header(&response, "vary"), None, "one copy serves all");
        assert_eq!(allowed, ["*"], "{path}");
        let words = [origin, ("access-control-request-method", "GET")];
        let preflight = send(&published.app, Method::OPTIONS, &path, &words).await;
        assert!(preflight.status().is_success(), "{preflight:?}");
        assert_eq!(header(&preflight, "access-control-allow-origin"), Some("*"));
        // So that a page can keep a copy.
        let sent = header(&preflight, "access-control-allow-headers");
        assert!(sent.is_some_and(|names| names.contains("if-none-match")));
        let read = header(&response, "access-control-expose-headers");
        assert!(read.is_some_and(|names| names.contains("etag")));
    }
    let elsewhere = published.get("/v1/balances", &[origin]).await;
    assert_ne!(header(&elsewhere, "access-control-allow-origin"), Some("*"));
}

#[tokio::test]
async fn e28_an_envelope_is_deleted_after_its_retention() {
    let published = PublishedEnvelope::new(&[]).await;
    let store = &published.app.store;
    PublishedEnvelope::keep(store, &published.id, &published.bytes, Some(30)).await;
    eventually("it is gone", || async {
        published.get(&published.path(), &[]).await.status() == 404
    })
    .await;
}

#[tokio::test]
async fn e32_the_dialect_names_the_key_set_and_its_members() {
    let own = settings('a');
    let words: Vec<&str> = own
        .iter()
        .map(String::as_str)
        .chain(["--dialect", "cycles"])
        .collect();
    let app = TestApp::spawn_on(&shared().url(), &words).await;
    let path = format!("/v1/.well-known/{}", Dialect::Cycles.words().key_set_file);
    let set = app.send(app.request(Method::GET, &path)).await.expect(200);
    assert_eq!(set.at("/keys/0/cycles_nbf_ms"), 0);
    app.send(app.request(Method::GET, KEY_SET))
        .await
        .refused(401, "UNAUTHORIZED");
}
