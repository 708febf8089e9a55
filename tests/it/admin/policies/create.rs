//! Creating and changing policies: checks and their order, records, events, audit entries.

use reqwest::Method;
use serde_json::{Value, json};

use super::{create, patch};
use crate::harness::admin_calls::{POLICIES, policy_body};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::with;

const ROOT: &str = "tenant:acme";

/// The first tenant's policy events: type, scope and data.
fn emitted(app: &TestApp) -> Vec<(String, Value)> {
    let events = app.admin_fixture().events("acme").into_iter();
    events
        .map(|event| {
            assert_eq!(event["scope"], event["data"]["scope_pattern"]);
            assert_eq!(event["category"], "policy");
            assert!(event.get("correlation_id").is_none(), "{event}");
            (
                event["event_type"].as_str().expect("a type").to_owned(),
                event["data"].clone(),
            )
        })
        .collect()
}

#[tokio::test]
async fn a_policy_is_returned_as_created_with_one_event_and_one_audit_entry() {
    let app = TestApp::spawn().await;
    let members = json!({
        "description": "for \"agents\"", "priority": 9_223_372_036_854_775_807_i64,
        "caps": {"max_tokens": 5, "tool_denylist": ["shell"]}, "commit_overage_policy": "REJECT",
        "reservation_ttl_override": {"default_ttl_ms": 1_000, "max_ttl_ms": 86_400_000, "max_extensions": 0},
        "rate_limits": {"max_reservations_per_minute": 1, "max_commits_per_minute": 2},
        "effective_from": "2026-01-01T00:00:00.000Z", "effective_until": "2126-01-01T00:00:00.000Z",
    });
    let body = policy_body("acme", "agents", "tenant:acme/agent:*", members.clone());
    let made = create(&app, None, &body).await.expect(201);
    let id = made.text("/policy_id").to_owned();
    assert!(
        id.starts_with(&format!("pol_{}_", tenant_id("acme").partition())),
        "{id}"
    );
    let added = json!({
        "policy_id": id, "name": "agents", "scope_pattern": "tenant:acme/agent:*", "status": "ACTIVE",
        "created_at": made.at("/created_at"), "updated_at": made.at("/updated_at"),
    });
    assert_eq!(made.body, with(members, added));
    let plain = create(&app, None, &policy_body("acme", "plain", ROOT, json!({}))).await;
    assert_eq!(plain.at("/priority"), &json!(0));
    assert_eq!(plain.at("/caps"), &Value::Null);

    let data = json!({"policy_id": id, "name": "agents", "scope_pattern": "tenant:acme/agent:*", "changed_fields": []});
    assert_eq!(emitted(&app)[0], ("policy.created".to_owned(), data));
    let event = &app.admin_fixture().events("acme")[0];
    assert_eq!(
        (&event["source"], &event["actor"]["type"]),
        (&json!("service-admin"), &json!("admin_on_behalf_of"))
    );
    assert_eq!(event["request_id"].as_str(), made.header("x-request-id"));
    let recorded = app.admin_fixture().tenant_audit("acme");
    assert_eq!(recorded.len(), 2);
    for (name, value) in [
        ("operation", "createPolicy"),
        ("status", "201"),
        ("resource_type", "policy"),
        ("resource_id", &id),
        ("metadata.name", "agents"),
        ("metadata.scope_pattern", "tenant:acme/agent:*"),
        ("metadata.actor_type", "admin_on_behalf_of"),
    ] {
        assert_eq!(recorded[0].get(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn an_update_emits_the_changed_members_and_a_no_op_emits_nothing() {
    let app = TestApp::spawn().await;
    let caps = json!({"max_tokens": 5, "cooldown_ms": 1});
    let id = app
        .policy(
            "p",
            ROOT,
            json!({"caps": caps, "rate_limits": {"max_commits_per_minute": 3}}),
        )
        .await;
    let version = async || -> String { app.run(&["HGET", &app.tenant_key(), "policies"]).await };
    let first = version().await;
    for body in [
        json!({}),
        json!({"name": "p", "priority": 0, "caps": caps, "status": "ACTIVE", "description": null}),
        json!({"name": null, "status": null, "rate_limits": {"max_commits_per_minute": 3}}),
    ] {
        let response = patch(&app, None, &id, &body).await;
        assert_eq!(
            (response.status, response.text("/name")),
            (200, "p"),
            "{body}"
        );
    }
    assert_eq!(emitted(&app).len(), 1, "nothing has changed");
    assert_eq!(version().await, first);

    let body = json!({"name": "q", "status": "DISABLED", "caps": {"cooldown_ms": 1}, "rate_limits": null,
        "reservation_ttl_override": {"max_ttl_ms": 2_000, "max_extensions": 1}, "priority": 3,
        "commit_overage_policy": "REJECT", "effective_until": "2126-01-01T01:00:00+01:00", "description": "d"});
    let response = patch(&app, None, &id, &body).await;
    assert_eq!(
        response.at("/caps"),
        &json!({"cooldown_ms": 1}),
        "replaced whole"
    );
    assert_eq!(response.at("/rate_limits"), &Value::Null);
    assert_eq!(
        response.text("/effective_until"),
        "2126-01-01T00:00:00.000Z"
    );
    assert_ne!(version().await, first);
    let changed = json!([
        "name",
        "description",
        "priority",
        "caps",
        "commit_overage_policy",
        "reservation_ttl_override",
        "rate_limits",
        "status",
        "effective_until"
    ]);
    let data =
        json!({"policy_id": id, "name": "q", "scope_pattern": ROOT, "changed_fields": changed});
    assert_eq!(emitted(&app)[1], ("policy.updated".to_owned(), data));
    let recorded = app.admin_fixture().tenant_audit("acme");
    assert_eq!(recorded.len(), 5, "each request is recorded");
    let last = recorded.last().expect("an entry");
    for (name, value) in [
        ("operation", "updatePolicy"),
        ("status", "200"),
        ("resource_id", &id),
        ("metadata.scope_pattern", ROOT),
        ("metadata.name", "q"),
        ("metadata.priority", "3"),
        ("metadata.new_status", "DISABLED"),
        ("metadata.caps_updated", "true"),
        ("metadata.commit_overage_policy", "REJECT"),
    ] {
        assert_eq!(last.get(name), Some(value), "{name}");
    }
    let nulls = json!({"description": null, "priority": null, "caps": null, "commit_overage_policy": null,
        "reservation_ttl_override": null, "rate_limits": null, "effective_from": null, "effective_until": null});
    let response = patch(&app, None, &id, &nulls).await;
    let bare = json!({"policy_id": id, "name": "q", "scope_pattern": ROOT, "status": "DISABLED", "priority": 0,
        "created_at": response.at("/created_at"), "updated_at": response.at("/updated_at")});
    assert_eq!(response.body, bare);
}

#[tokio::test]
async fn rule_48_a_negative_priority_and_a_pattern_in_a_patch_are_refused() {
    let app = TestApp::spawn().await;
    let id = app.policy("p", ROOT, json!({})).await;
    let body = policy_body("acme", "n", ROOT, json!({"priority": -1}));
    create(&app, None, &body)
        .await
        .refused(400, "INVALID_REQUEST");
    for body in [
        json!({"priority": -1}),
        json!({"scope_pattern": ROOT}),
        json!({"tenant_id": "acme"}),
    ] {
        assert_eq!(
            patch(&app, None, &id, &body).await.error(),
            (400, "INVALID_REQUEST"),
            "{body}"
        );
    }
}

#[tokio::test]
async fn rule_49_a_tenant_changes_its_own_policies_and_no_others() {
    let app = TestApp::spawn().await;
    let own = app.policy("p", ROOT, json!({})).await;
    let body = policy_body("bolt", "p", "tenant:bolt", json!({}));
    let foreign = create(&app, None, &body)
        .await
        .text("/policy_id")
        .to_owned();
    // One more of the same partition as acme's: it is in reach of the script.
    let near = own
        .replace("pol_", "")
        .split('_')
        .next()
        .map(str::to_owned)
        .expect("a partition");
    let near = format!("pol_{near}_abcdefghij12");
    let record = app.store.keys().policy(app.callers[0].partition, &near);
    app.set(
        &record,
        &[
            ("tenant", "other"),
            ("scope_pattern", "tenant:other"),
            ("name", "n"),
        ],
    )
    .await;
    let key = &app.keys[0];
    let change = json!({"priority": 1});
    assert_eq!(
        patch(&app, Some(key), &own, &change).await.at("/priority"),
        &json!(1)
    );
    let unknown = own.chars().rev().collect::<String>();
    for (id, expected) in [
        (foreign.as_str(), (403, "FORBIDDEN")),
        (&near, (403, "FORBIDDEN")),
        (
            &format!("{}zzzzzz", &own[..own.len() - 6]),
            (404, "NOT_FOUND"),
        ),
        ("pol_3ff_abcdefghij12", (404, "NOT_FOUND")),
        (&unknown, (404, "NOT_FOUND")),
        ("x", (404, "NOT_FOUND")),
    ] {
        assert_eq!(
            patch(&app, Some(key), id, &change).await.error(),
            expected,
            "{id}"
        );
    }
    for id in [format!("{}zzzzzz", &own[..own.len() - 6]), "x".to_owned()] {
        assert_eq!(
            patch(&app, None, &id, &change).await.error(),
            (404, "NOT_FOUND"),
            "{id}"
        );
    }
    patch(&app, None, &foreign, &change).await.expect(200);
    let event = app.admin_fixture().events("acme").pop().expect("an event");
    assert_eq!(event["actor"]["type"], "api_key");
    assert_eq!(event["actor"]["key_id"], app.callers[0].key_id.as_str());
}

#[tokio::test]
async fn rule_50_a_name_is_unique_in_a_tenant() {
    let app = TestApp::spawn().await;
    let first = app.policy("p", ROOT, json!({})).await;
    let duplicate = (409, "DUPLICATE_RESOURCE");
    let again = policy_body("acme", "p", "tenant:acme/*", json!({}));
    assert_eq!(create(&app, None, &again).await.error(), duplicate);
    let elsewhere = policy_body("bolt", "p", "tenant:bolt", json!({}));
    create(&app, None, &elsewhere).await.expect(201);
    let second = app.policy("q", ROOT, json!({})).await;
    assert_eq!(
        patch(&app, None, &second, &json!({"name": "p", "priority": 7}))
            .await
            .error(),
        duplicate
    );
    app.amend(&first, json!({"name": "r", "status": "DISABLED"}))
        .await;
    assert_eq!(
        patch(&app, None, &second, &json!({"name": "r"}))
            .await
            .error(),
        duplicate
    );
    app.amend(&second, json!({"name": "p"})).await;
    assert_eq!(
        patch(&app, None, &second, &json!({})).await.at("/priority"),
        &json!(0)
    );
    assert_eq!(
        app.policy("q", ROOT, json!({})).await.len(),
        first.len(),
        "a name that was given up is free"
    );

    let racing = policy_body("acme", "race", ROOT, json!({}));
    let (a, b) = tokio::join!(create(&app, None, &racing), create(&app, None, &racing));
    let mut statuses = [a.status, b.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
}

#[tokio::test]
async fn a_repeated_request_takes_effect_once() {
    let app = TestApp::spawn().await;
    let send = async |method: Method, path: &str, body: &Value| {
        let headers = [
            ("X-Admin-API-Key", crate::harness::app::ADMIN_KEY),
            ("X-Idempotency-Key", "once"),
        ];
        app.call(method, path, &headers, body).await
    };
    let body = policy_body("acme", "p", ROOT, json!({"caps": {"max_tokens": 1}}));
    let made = send(Method::POST, POLICIES, &body).await;
    let path = format!("{POLICIES}/{}", made.text("/policy_id"));
    let changed = send(Method::PATCH, &path, &json!({"priority": 4})).await;
    assert_eq!(changed.at("/priority"), &json!(4));
    let (events, recorded) = (
        emitted(&app).len(),
        app.admin_fixture().tenant_audit("acme").len(),
    );
    app.set_tenant(&[("status", "CLOSED")]).await;
    assert_eq!(send(Method::POST, POLICIES, &body).await.body, made.body);
    assert_eq!(
        send(Method::PATCH, &path, &json!({"priority": 4}))
            .await
            .body,
        changed.body
    );
    assert_eq!(
        (
            emitted(&app).len(),
            app.admin_fixture().tenant_audit("acme").len()
        ),
        (events, recorded)
    );
    let mismatch = (409, "IDEMPOTENCY_MISMATCH");
    let other = policy_body("acme", "p", ROOT, json!({}));
    assert_eq!(send(Method::POST, POLICIES, &other).await.error(), mismatch);
    // Removing a member differs from leaving it out.
    let null = json!({"priority": 4, "caps": null});
    assert_eq!(send(Method::PATCH, &path, &null).await.error(), mismatch);
}
