//! API keys and the admin key.

use reqwest::Method;
use serde_json::json;

use super::{operations, send_with, with_a_reservation};
use crate::harness::app::{ADMIN_KEY, TestApp, reserve_body};
use crate::harness::redis::shared;

#[tokio::test]
async fn without_a_key_every_request_is_401() {
    for app in TestApp::spawn_both().await {
        for (method, path) in [
            (Method::POST, "/v1/reservations"),
            (Method::PUT, "/v1/reservations"),
            (Method::POST, "/v1/decide"),
            (Method::GET, "/v1/balances"),
            (Method::GET, "/no/such/path"),
            (Method::DELETE, "/v1"),
        ] {
            for key in [None, Some(""), Some("   ")] {
                let mut request = app.request(method.clone(), path).body("{broken");
                if let Some(key) = key {
                    request = request.header(app.names.key, key);
                }
                let response = app.send(request).await;
                assert_eq!(
                    response.error(),
                    (401, "UNAUTHORIZED"),
                    "{path}: {response:?}"
                );
                let tenants_only = method == Method::POST || path == "/v1/balances";
                let or = if tenants_only {
                    ""
                } else {
                    " or X-Admin-API-Key"
                };
                let message = format!("Missing API key (header {}{or})", app.names.key);
                assert_eq!(response.text("/message"), message);
                assert_eq!(response.header(app.names.tenant), None);
            }
        }
    }
}

#[tokio::test]
async fn with_a_key_an_unknown_path_is_404_and_an_unknown_method_405() {
    let app = TestApp::spawn().await;
    for path in [
        "/v1",
        "/v1/reservation",
        "/v1/reservations/",
        "/v1/reservations/x/commit/",
        "/V1/reservations",
        "//v1/reservations",
    ] {
        assert_eq!(app.get(path).await.error(), (404, "NOT_FOUND"), "{path}");
    }
    for (method, path, allowed) in [
        (Method::PUT, "/v1/reservations", "GET,HEAD,POST"),
        (Method::DELETE, "/v1/reservations/x", "GET,HEAD"),
        (Method::GET, "/v1/reservations/x/commit", "POST"),
        (Method::GET, "/v1/decide", "POST"),
        (Method::POST, "/v1/balances", "GET,HEAD"),
        (Method::from_bytes(b"FROB").unwrap(), "/v1/decide", "POST"),
    ] {
        let request = app.request(method.clone(), path);
        let request = request.header(app.names.key, &app.keys[0]);
        let response = app.send(request).await;
        assert_eq!(
            response.error(),
            (405, "INVALID_REQUEST"),
            "{method} {path}"
        );
        let mut allow: Vec<_> = response
            .header("allow")
            .expect("Allow")
            .split(',')
            .collect();
        allow.sort_unstable();
        assert_eq!(allow.join(","), allowed, "{method} {path}");
    }
}

#[tokio::test]
async fn a_revoked_key_is_refused_on_the_next_request_by_every_replica() {
    for dialect in ["service", "cycles"] {
        let settings = ["--dialect", dialect];
        let app = TestApp::spawn_on(&shared().url(), &settings).await;
        let prefix = app.store.keys().prefix();
        let replica = TestApp::spawn_with(&shared().url(), prefix, &settings).await;
        let id = with_a_reservation(&app).await;
        let key = app.add_key(0, &[]).await;
        for service in [&app, &replica] {
            assert_eq!(
                service.get_with(&key, "/v1/reservations").await.status,
                200,
                "both know the key"
            );
        }
        app.change_key(&key, &[("status", "REVOKED")]).await;
        for service in [&app, &replica] {
            for (_, path, body) in operations(&id) {
                let response = send_with(service, &key, &path, &body).await;
                assert_eq!(response.error(), (401, "UNAUTHORIZED"), "{path}");
                assert!(response.text("/message").starts_with("KEY_REVOKED: "));
            }
        }
    }
}

#[tokio::test]
async fn the_status_of_a_key_is_revealed_only_with_its_secret() {
    let app = TestApp::spawn().await;
    let (good, revoked) = (
        app.add_key(0, &[]).await,
        app.add_key(0, &[("status", "REVOKED")]).await,
    );
    let expired = app.add_key(0, &[("expires_at_ms", "1")]).await;
    let other_secret = |key: &str| {
        let last = if key.ends_with('A') { 'B' } else { 'A' };
        format!("{}{last}", &key[..key.len() - 1])
    };
    let unknown = good.replace("sk_live_", "sk_test_");
    for (key, message) in [
        (good.as_str(), None),
        (&unknown, Some("INVALID_KEY")),
        (&other_secret(&good), Some("INVALID_KEY")),
        (&revoked, Some("KEY_REVOKED")),
        (&other_secret(&revoked), Some("INVALID_KEY")),
        (&expired, Some("KEY_EXPIRED")),
        (&other_secret(&expired), Some("INVALID_KEY")),
        ("sk_live_", Some("KEY_NOT_FOUND")),
        ("cyc_live_000aaaaaaaaaaaa", Some("KEY_NOT_FOUND")),
        (&good[..good.len() - 1], Some("KEY_NOT_FOUND")),
        (&format!("{good}A"), Some("KEY_NOT_FOUND")),
        (&good.to_uppercase(), Some("KEY_NOT_FOUND")),
    ] {
        let response = app.get_with(key, "/v1/reservations").await;
        match message {
            None => assert_eq!(response.status, 200, "{response:?}"),
            Some(message) => {
                assert_eq!(response.error(), (401, "UNAUTHORIZED"), "{response:?}");
                assert!(
                    response.text("/message").starts_with(message),
                    "{response:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_key_whose_record_moves_to_another_tenant_is_valid_for_neither() {
    let app = TestApp::spawn().await;
    let key = app.add_key(0, &[]).await;
    app.get_with(&key, "/v1/reservations").await.expect(200);
    app.change_key(&key, &[("tenant", "bolt")]).await;
    let response = app
        .get_with(&key, "/v1/reservations")
        .await
        .refused(401, "UNAUTHORIZED");
    assert!(
        response
            .text("/message")
            .starts_with("KEY_NOT_OWNED_BY_TENANT: ")
    );
}

#[tokio::test]
async fn either_dialects_key_header_is_accepted_but_not_both_with_different_keys() {
    for app in TestApp::spawn_both().await {
        let (native, alias) = (app.names.key, app.names.other().key);
        let good = app.keys[0].as_str();
        for (headers, status) in [
            (vec![(alias, good)], 200),
            (vec![(native, good), (alias, good)], 200),
            (vec![(native, good), (alias, "nonsense")], 400),
            (vec![(native, "nonsense"), (alias, good)], 400),
            (vec![(native, "nonsense"), (alias, "nonsense")], 401),
            (vec![(native, " "), (alias, good)], 200),
        ] {
            let mut request = app.request(Method::GET, "/v1/reservations");
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            assert_eq!(app.send(request).await.status, status, "{headers:?}");
        }
    }
}

#[tokio::test]
async fn the_admin_key_opens_list_get_and_release_and_nothing_else() {
    let app = TestApp::spawn().await;
    let id = with_a_reservation(&app).await;
    for (_, path, body) in operations(&id) {
        let request = match &body {
            Some(body) => app.request(Method::POST, &path).json(body),
            None => app.request(Method::GET, &path),
        };
        let response = app.send(request.header("X-Admin-API-Key", ADMIN_KEY)).await;
        let expected = match (path.rsplit('/').next(), &body) {
            (Some("release"), _) => 200,
            (Some(last), None) if last == id => 200,
            (Some("reservations"), None) => 400,
            _ => 401,
        };
        assert_eq!(response.status, expected, "{path}: {response:?}");
        assert_eq!(response.header(app.names.tenant), None, "{path}");
    }
    // These are no operations at all.
    for path in [
        "/v1/reservations/",
        "//v1/reservations",
        "/v1/Reservations",
        "/V1/reservations",
        "/v1/reservations/x/release/",
        "/v1/reservations/x/y",
        "/no/such/path",
    ] {
        let response = app.get_as_admin(path).await;
        assert_eq!(response.error(), (404, "NOT_FOUND"), "{path}");
    }
    let response = app.get_as_admin("/v1/reservations/x/release").await;
    assert_eq!(response.error(), (405, "INVALID_REQUEST"));
}

#[tokio::test]
async fn an_admin_key_takes_precedence_where_it_is_accepted_in_the_cycles_dialect() {
    let [service, app] = TestApp::spawn_both().await;
    let both = service.request(Method::GET, "/v1/reservations?tenant=acme");
    let both = both.header("X-Admin-API-Key", ADMIN_KEY);
    let both = service.send(both.header(service.names.key, &service.keys[0]));
    both.await.refused(400, "INVALID_REQUEST");
    app.budget("tenant:acme", 1_000, 0).await;
    let id = with_a_reservation(&app).await;
    let send = async |admin: &str, tenant: usize, path: &str| {
        let request = app
            .request(Method::GET, path)
            .header("X-Admin-API-Key", admin);
        app.send(request.header(app.names.key, &app.keys[tenant]))
            .await
    };
    let of_acme = format!("/v1/reservations/{id}");
    let list = "/v1/reservations?tenant=acme";
    send("wrong", 0, list).await.refused(401, "UNAUTHORIZED");
    send("wrong", 0, &of_acme)
        .await
        .refused(401, "UNAUTHORIZED");
    assert_eq!(send(" ", 0, list).await.status, 200, "blank is absent");
    send(ADMIN_KEY, 1, &of_acme).await.expect(200);
    let listed = send(ADMIN_KEY, 1, list).await;
    assert_eq!(listed.at("/reservations/0/reservation_id"), &json!(id));
    let elsewhere = send("wrong", 0, "/v1/balances?tenant=acme").await;
    assert_eq!(elsewhere.status, 200, "not honoured there: {elsewhere:?}");
}

#[tokio::test]
async fn an_admin_list_requires_a_tenant() {
    let app = TestApp::spawn().await;
    let id = with_a_reservation(&app).await;
    let required = "tenant query parameter is required when using admin key authentication";
    for query in ["", "?tenant=", "?tenant=%20", "?status=ACTIVE"] {
        let response = app.get_as_admin(&format!("/v1/reservations{query}")).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
        assert_eq!(response.text("/message"), required);
    }
    let listed = app.get_as_admin("/v1/reservations?tenant=acme").await;
    assert_eq!(listed.at("/reservations/0/reservation_id"), &json!(id));
    for unknown in ["nobody", "ACME", "a/b", "%00", "x"] {
        let response = app
            .get_as_admin(&format!("/v1/reservations?tenant={unknown}"))
            .await;
        assert_eq!(response.status, 200, "{unknown}");
        assert_eq!(
            response.body,
            json!({"reservations": [], "has_more": false})
        );
    }
}

#[tokio::test]
async fn without_configured_admin_keys_none_is_accepted() {
    let app = TestApp::spawn_on(&shared().url(), &["--admin-keys", ""]).await;
    for key in [ADMIN_KEY, "x"] {
        let request = app.request(Method::GET, "/v1/reservations?tenant=acme");
        app.send(request.header("X-Admin-API-Key", key))
            .await
            .refused(401, "UNAUTHORIZED");
    }
}

#[tokio::test]
async fn a_replay_is_authorized_by_the_current_key() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let key = app.add_key(0, &[]).await;
    let body = reserve_body("replayed", 10);
    let create = async || app.post_with(&key, "/v1/reservations", &body).await;
    create().await.expect(200);
    let lists = [("permissions", " reservations:list ")];
    app.change_key(&key, &lists).await;
    create().await.refused(403, "FORBIDDEN");
    app.change_key(&key, &[("status", "REVOKED")]).await;
    create().await.refused(401, "UNAUTHORIZED");
}
