//! Permissions and scope filters of an API key, and the checks before them.

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::{ask_body, ledger, with};

const ROOT: &str = "tenant:acme";
const NAMES: [&str; 10] = [
    "create", "dry run", "decide", "commit", "event", "release", "extend", "get", "list",
    "balances",
];

/// One request of each operation, in the order of [`NAMES`], on reservations that `app` holds already.
async fn each_operation(app: &TestApp, round: usize, ids: [&str; 2]) -> Vec<Response> {
    let key = |name: &str| format!("{name}{round}");
    vec![
        app.reserve(&key("a"), 1).await,
        app.dry_run(&key("b"), ROOT, 1).await,
        app.decide(&key("c"), ROOT, 1).await,
        app.commit(ids[0], &key("d"), 1).await,
        app.post_event(&key("e"), ROOT, 1, json!({})).await,
        app.release(ids[1], &key("f")).await,
        app.extend(ids[1], &key("g"), 1).await,
        app.found(ids[0]).await,
        app.get("/v1/reservations").await,
        app.get("/v1/balances?tenant=acme").await,
    ]
}

/// Whether an operation was carried out, or got as far as the state of its reservation.
fn is_open(response: &Response) -> bool {
    response.is_success() || response.error() == (409, "RESERVATION_FINALIZED")
}

#[tokio::test]
async fn each_permission_permits_its_operations_and_no_others() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000_000, 0).await;
    let all = "reservations:create reservations:commit reservations:release reservations:extend reservations:list balances:read";
    let rows: [(&str, &[&str]); 12] = [
        ("reservations:create", &["create", "dry run", "decide"]),
        ("reservations:commit", &["commit", "event"]),
        ("reservations:release", &["release"]),
        ("reservations:extend", &["extend"]),
        ("reservations:list", &["get", "list"]),
        ("balances:read", &["balances"]),
        ("admin:read", &["balances"]),
        ("admin:write", &[]),
        ("budgets:write policies:write events:read", &[]),
        (
            "admin:read admin:write reservations:create",
            &["create", "dry run", "decide", "balances"],
        ),
        ("", &[]),
        (all, &NAMES),
    ];
    for (round, (permissions, open)) in rows.into_iter().enumerate() {
        app.set_key(&[("permissions", &format!(" {all} "))]).await;
        let ids = [
            app.held(&format!("tenant:acme/app:c{round}"), 1, json!({}))
                .await,
            app.held(&format!("tenant:acme/app:r{round}"), 1, json!({}))
                .await,
        ];
        app.set_key(&[("permissions", &format!(" {permissions} "))])
            .await;
        let responses = each_operation(&app, round, [&ids[0], &ids[1]]).await;
        for (name, response) in NAMES.into_iter().zip(responses) {
            assert_eq!(
                is_open(&response),
                open.contains(&name),
                "{name} with {permissions:?}: {response:?}"
            );
            if !open.contains(&name) {
                assert_eq!(
                    response.error(),
                    (403, "FORBIDDEN"),
                    "{name} with {permissions:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_record_without_permissions_grants_nothing() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let caller = &app.callers[0];
    let record = app
        .store
        .keys()
        .api_key(caller.partition, caller.key_id.as_str());
    app.run::<()>(&["HDEL", &record, "permissions"]).await;
    for path in ["/v1/reservations", "/v1/balances?tenant=acme"] {
        app.get(path).await.refused(403, "FORBIDDEN");
    }
    app.reserve("k", 1).await.refused(403, "FORBIDDEN");
    let introspected = app.get("/v1/auth/introspect").await.expect(200);
    assert_eq!(introspected.at("/permissions"), &json!([]));
}

#[tokio::test]
async fn a_key_created_without_permissions_may_call_the_whole_runtime_plane() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let new = json!({"tenant_id": "acme", "name": "n"});
    let made = app
        .post_as_admin("/v1/admin/api-keys", new)
        .await
        .expect(201);
    let granted = made.at("/permissions").as_array().expect("a list");
    let granted: Vec<_> = granted.iter().filter_map(Value::as_str).collect();
    app.set_key(&[("permissions", &format!(" {} ", granted.join(" ")))])
        .await;
    let ids = [
        app.held("tenant:acme/app:c", 1, json!({})).await,
        app.held("tenant:acme/app:r", 1, json!({})).await,
    ];
    for (name, response) in NAMES
        .into_iter()
        .zip(each_operation(&app, 0, [&ids[0], &ids[1]]).await)
    {
        assert!(is_open(&response), "{name}: {response:?}");
    }
}

#[tokio::test]
async fn without_the_permission_nothing_is_revealed_about_a_reservation() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    app.budget_of(1, "tenant:bolt", 500).await;
    let body = ask_body("k", "tenant:bolt", 50);
    let foreign = app.post_as(1, "/v1/reservations", &body).await;
    let own = app.held(ROOT, 1, json!({})).await;
    app.set_key(&[("permissions", " reservations:create ")])
        .await;
    let forbidden = (403, "FORBIDDEN");
    for id in [
        "nonsense",
        "r000_unknown",
        foreign.text("/reservation_id"),
        &own,
    ] {
        let responses = [
            app.commit(id, "x", 1).await,
            app.release(id, "x").await,
            app.extend(id, "x", 1).await,
            app.found(id).await,
        ];
        for response in responses {
            assert_eq!(response.error(), forbidden, "{id}");
            assert!(
                response.text("/message").contains("permission"),
                "{response:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_replay_needs_the_permission_and_a_valid_key() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(ROOT, 300, json!({})).await;
    app.commit(&id, "c", 200).await.expect(200);
    app.set_key(&[("permissions", " reservations:release ")])
        .await;
    app.commit(&id, "c", 200).await.refused(403, "FORBIDDEN");
    app.create(ROOT, ROOT, 300, json!({}))
        .await
        .refused(403, "FORBIDDEN");
    let states: [&[(&str, &str)]; 4] = [
        &[
            ("permissions", " reservations:commit "),
            ("status", "REVOKED"),
        ],
        &[("status", "ACTIVE"), ("expires_at_ms", "1")],
        &[("expires_at_ms", "99999999999999"), ("tenant", "bolt")],
        &[("tenant", "acme"), ("hash", "another")],
    ];
    for state in states {
        app.set_key(state).await;
        let response = app.commit(&id, "c", 200).await;
        assert_eq!(response.error(), (401, "UNAUTHORIZED"), "{state:?}");
    }
    let hash = app.callers[0].key_hash.as_str();
    app.set_key(&[("hash", hash), ("permissions", " balances:read ")])
        .await;
    assert_eq!(app.stored_ledger(ROOT).await, ledger(800, 0, 200, 0));
}

/// A filter, and whether it opens `workspace:prod/agent:a` and `workspace:dev`.
#[tokio::test]
async fn a_key_restricted_to_scopes_acts_within_them_only() {
    let prod = "tenant:acme/workspace:prod/agent:a";
    let dev = "tenant:acme/workspace:dev";
    let rows = [
        ("", [true, true]),
        ("workspace:prod", [true, false]),
        ("workspace:pro", [false, false]),
        ("workspace:*", [true, true]),
        ("agent:*", [true, false]),
        ("agent:b\nworkspace:dev", [false, true]),
        ("tenant:acme", [true, true]),
        ("toolset:*", [false, false]),
        (dev, [false, true]),
        ("tenant:acme/workspace:prod", [true, false]),
        ("tenant:acme/workspace:pro", [false, false]),
        ("tenant:acme/agent:a", [false, false]),
        (
            "tenant:acme/workspace:prod/agent:a/toolset:t",
            [false, false],
        ),
    ];
    for (filter, open) in rows {
        let app = TestApp::spawn().await;
        for scope in [ROOT, prod, dev] {
            app.budget(scope, 1_000, 0).await;
        }
        for (scope, is_open) in [prod, dev].into_iter().zip(open) {
            app.set_key(&[("scope_filter", "")]).await;
            let id = app.held(scope, 10, json!({})).await;
            app.set_key(&[("scope_filter", filter)]).await;
            let (before, key) = (app.everything().await, format!("k {scope}"));
            let responses = [
                app.extend(&id, "x", 1).await,
                app.found(&id).await,
                app.commit(&id, "x", 1).await,
                app.dry_run(scope.trim_start_matches(ROOT), scope, 1).await,
                app.decide(&key, scope, 1).await,
                app.post_event(&key, scope, 1, json!({})).await,
                app.release(&id, "x").await,
            ];
            for (number, response) in responses.iter().enumerate() {
                let expected = match (is_open, number) {
                    (false, _) => (403, "FORBIDDEN"),
                    (true, 5) => (201, "none"),
                    (true, 6) => (409, "RESERVATION_FINALIZED"),
                    (true, _) => (200, "none"),
                };
                assert_eq!(
                    response.error(),
                    expected,
                    "{filter:?} on {scope}, {number}"
                );
            }
            assert_eq!(
                app.everything().await == before,
                !is_open,
                "{filter:?} on {scope}"
            );
            app.run::<()>(&["DEL", &app.reservation_key(&id)]).await;
        }
    }
}

#[tokio::test]
async fn lists_and_balances_of_a_restricted_key_show_its_scopes_only() {
    let (prod, dev) = ("tenant:acme/workspace:prod", "tenant:acme/workspace:dev");
    let app = TestApp::spawn().await;
    for scope in [ROOT, prod, dev] {
        app.budget(scope, 1_000, 0).await;
    }
    for scope in [ROOT, prod, dev] {
        app.held(scope, 10, json!({})).await;
    }
    let paths = |rows: &Value| -> Vec<Value> {
        let rows = rows.as_array().expect("rows");
        rows.iter().map(|row| row["scope_path"].clone()).collect()
    };
    for filter in ["workspace:prod", prod] {
        app.set_key(&[("scope_filter", filter)]).await;
        for query in ["", "?sort_by=reserved", "?status=ACTIVE", "?limit=1"] {
            let listed = app.get(&format!("/v1/reservations{query}")).await;
            assert_eq!(paths(listed.at("/reservations")), [prod], "{query}");
        }
        for query in ["tenant=acme", "workspace=prod"] {
            let balances = app.get(&format!("/v1/balances?{query}")).await;
            assert_eq!(paths(balances.at("/balances")), [prod], "{query}");
        }
        let other = app.get("/v1/balances?workspace=dev").await;
        assert_eq!((other.status, other.at("/balances")), (200, &json!([])));
    }
}

#[tokio::test]
async fn another_tenants_subject_is_refused_after_validation_and_before_the_permission() {
    let app = TestApp::spawn().await;
    let body = ask_body("k", "tenant:bolt", 1);
    app.set_key(&[("permissions", " ")]).await;
    for path in ["/v1/reservations", "/v1/decide"] {
        let wrong = with(
            body.clone(),
            json!({"estimate": {"unit": "EUR", "amount": 1}}),
        );
        app.post(path, wrong).await.refused(400, "INVALID_REQUEST");
        let response = app.post(path, body.clone()).await.refused(403, "FORBIDDEN");
        assert!(response.text("/message").contains("tenant"), "{response:?}");
        assert_eq!(response.headers["x-service-tenant"], "acme");
    }
    app.set_key(&[("status", "REVOKED")]).await;
    app.post("/v1/decide", body)
        .await
        .refused(401, "UNAUTHORIZED");
    app.set_key(&[
        ("status", "ACTIVE"),
        ("permissions", " reservations:create "),
    ])
    .await;
    app.create("k", "tenant:ACME", 1, json!({}))
        .await
        .refused(403, "FORBIDDEN");
}
