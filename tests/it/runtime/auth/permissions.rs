//! Permissions and scopes of a valid key, which never reach other tenants' reservations.

use budget_authority::domain::ids::TenantId;
use serde_json::json;

use super::{operations, send_with, with_a_reservation};
use crate::harness::app::{TestApp, reserve_body};
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

#[tokio::test]
async fn each_operation_needs_its_permission_and_no_other() {
    let app = TestApp::spawn().await;
    let id = with_a_reservation(&app).await;
    for (needed, path, body) in operations(&id) {
        let all = "reservations:create reservations:commit reservations:release \
            reservations:extend reservations:list balances:read budgets:read budgets:write";
        let others: Vec<_> = all.split_whitespace().filter(|p| *p != needed).collect();
        let without = format!(" {} ", others.join(" "));
        for permissions in [without.as_str(), "", " admin:write ", " reservations "] {
            let key = app.add_key(0, &[("permissions", permissions)]).await;
            let response = send_with(&app, &key, &path, &body).await;
            assert_eq!(response.error(), (403, "FORBIDDEN"), "{path}: {response:?}");
            assert!(response.text("/message").contains(needed), "{response:?}");
            assert_eq!(response.header(app.names.tenant), Some("acme"));
        }
        let only = format!(" {needed} ");
        let key = app.add_key(0, &[("permissions", &only)]).await;
        let response = send_with(&app, &key, &path, &body).await;
        assert!(
            response.is_success() || response.status == 409,
            "{path}: {response:?}"
        );
    }
}

#[tokio::test]
async fn admin_read_permits_balances_and_no_reservations() {
    let app = TestApp::spawn().await;
    let id = with_a_reservation(&app).await;
    let key = app.add_key(0, &[("permissions", " admin:read ")]).await;
    for (needed, path, body) in operations(&id) {
        let response = send_with(&app, &key, &path, &body).await;
        let expected = if needed == "balances:read" { 200 } else { 403 };
        assert_eq!(response.status, expected, "{path}: {response:?}");
    }
}

#[tokio::test]
async fn a_key_without_the_commit_permission_may_only_release() {
    let app = TestApp::spawn().await;
    let id = with_a_reservation(&app).await;
    let key = app
        .add_key(0, &[("permissions", " reservations:release ")])
        .await;
    let mut statuses = Vec::new();
    for (_, path, body) in operations(&id).into_iter().skip(5).take(3) {
        statuses.push((
            path.rsplit('/').next().unwrap_or_default().to_owned(),
            send_with(&app, &key, &path, &body).await.status,
        ));
    }
    let expected = [("release", 200), ("commit", 403), ("events", 403)];
    assert_eq!(
        statuses,
        expected.map(|(operation, status)| (operation.to_owned(), status))
    );
}

#[tokio::test]
async fn the_permission_is_checked_before_existence() {
    let app = TestApp::spawn().await;
    let key = app.add_key(0, &[("permissions", "")]).await;
    let foreign = with_a_reservation_of_bolt(&app).await;
    for id in ["unknown", "r000_aaaaaaaaaaaaaaaaaaaaaaaa", &foreign] {
        for (needed, path, body) in operations(id) {
            let response = send_with(&app, &key, &path, &body).await;
            assert_eq!(response.error(), (403, "FORBIDDEN"), "{path}");
            assert!(response.text("/message").contains(needed), "{response:?}");
        }
    }
}

async fn with_a_reservation_of_bolt(app: &TestApp) -> String {
    app.budget_of(1, "tenant:bolt", 1_000).await;
    let mut body = reserve_body("of-bolt", 10);
    body["subject"]["tenant"] = json!("bolt");
    let response = app.post_as(1, "/v1/reservations", &body).await;
    response.text("/reservation_id").to_owned()
}

/// The first name of a tenant that shares acme's partition, or that does not.
fn neighbour(shares: bool) -> String {
    let partition = |name: &str| TenantId::parse(name).expect("a tenant id").partition();
    let names = (0..).map(|number| format!("tenant-{number}"));
    let mut found = names.filter(|name| (partition(name) == partition("acme")) == shares);
    found.next().expect("there are enough names")
}

#[tokio::test]
async fn a_foreign_reservation_is_403_and_an_unknown_one_404_in_every_partition() {
    let redis = RedisServer::start_with(&["--appendonly", "no"]);
    let mut app = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    app.budget("tenant:acme", 1_000, 0).await;
    let mut ids = Vec::new();
    for name in [neighbour(true), neighbour(false)] {
        let tenant = app.add_tenant(&name).await;
        app.budget_of(tenant, &format!("tenant:{name}"), 100).await;
        let mut body = reserve_body("theirs", 10);
        body["subject"]["tenant"] = json!(name);
        let response = app.post_as(tenant, "/v1/reservations", &body).await;
        ids.push((
            response.text("/reservation_id").to_owned(),
            403,
            "FORBIDDEN",
        ));
    }
    let own = app.callers[0].partition;
    for unknown in [
        format!("r{own}_aaaaaaaaaaaaaaaaaaaaaaaa"),
        "r000_aaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
        "rfff_aaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
        "anything".to_owned(),
        "x".repeat(128),
    ] {
        ids.push((unknown, 404, "NOT_FOUND"));
    }
    let before = app.digest().await;
    for (id, status, code) in ids {
        for (_, path, body) in operations(&id) {
            if !path.contains(&id) {
                continue;
            }
            let response = send_with(&app, &app.keys[0], &path, &body).await;
            assert_eq!(response.error(), (status, code), "{path}: {response:?}");
            if status == 404 {
                let message = response.text("/message");
                assert!(message.starts_with("Resource not found: "), "{message}");
            }
            let words = response.body.to_string();
            assert!(!words.contains("tenant-"), "names the owner: {words}");
        }
    }
    assert_eq!(app.digest().await, before);
}

#[tokio::test]
async fn the_subjects_tenant_must_equal_that_of_the_key_exactly() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    for (_, path, body) in operations("x") {
        let Some(mut body) = body.filter(|body| body.get("subject").is_some()) else {
            continue;
        };
        for tenant in ["ACME", "Acme", "bolt", "acme-corp", "nobody"] {
            body["subject"]["tenant"] = json!(tenant);
            let response = app.post(&path, body.clone()).await;
            assert_eq!(response.error(), (403, "FORBIDDEN"), "{path} {tenant}");
        }
        body["subject"]["tenant"] = json!("bolt");
        body["surprise"] = json!(1);
        let response = app.post(&path, body.clone()).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{path}");
    }
}

#[tokio::test]
async fn a_restricted_key_acts_on_its_scopes_and_sees_nothing_else() {
    let app = TestApp::spawn().await;
    for scope in [
        "tenant:acme",
        "tenant:acme/agent:bot",
        "tenant:acme/agent:cat",
    ] {
        app.budget(scope, 1_000, 0).await;
    }
    let create = |key: &str, agent: &str| {
        let mut body = reserve_body(key, 10);
        body["subject"]["agent"] = json!(agent);
        body
    };
    let other = app.post("/v1/reservations", create("cat", "cat")).await;
    let other = other.text("/reservation_id").to_owned();
    let key = app.add_key(0, &[("scope_filter", "agent:bot")]).await;
    let response = app
        .post_with(&key, "/v1/reservations", &create("bot", "BOT"))
        .await
        .expect(200);
    let own = response.text("/reservation_id").to_owned();
    for (_, path, body) in operations(&other) {
        let response = send_with(&app, &key, &path, &body).await;
        if path.contains(&other) || body.is_some() {
            assert_eq!(response.error(), (403, "FORBIDDEN"), "{path}: {response:?}");
        }
    }
    let rows = app.get_with(&key, "/v1/reservations").await;
    assert_eq!(rows.at("/reservations/0/reservation_id"), &json!(own));
    assert_eq!(rows.at("/reservations/1"), &json!(null), "{rows:?}");
    for (query, found) in [("bot", 1), ("cat", 0)] {
        let query = format!("/v1/reservations?idempotency_key={query}");
        let rows = app.get_with(&key, &query).await;
        let rows = rows.at("/reservations").as_array().map(Vec::len);
        assert_eq!(rows, Some(found), "{query}");
    }
    let balances = app.get_with(&key, "/v1/balances?tenant=acme").await;
    assert_eq!(balances.at("/balances/0/scope"), &json!("agent:bot"));
    assert_eq!(balances.at("/balances/1"), &json!(null), "{balances:?}");
}

#[tokio::test]
async fn an_id_may_have_128_characters_and_no_more() {
    let app = TestApp::spawn().await;
    for (id, status, code) in [
        ("x".repeat(128), 404, "NOT_FOUND"),
        ("%C3%A9".repeat(128), 404, "NOT_FOUND"),
        ("x".repeat(129), 400, "INVALID_REQUEST"),
        ("%C3%A9".repeat(129), 400, "INVALID_REQUEST"),
    ] {
        for (_, path, body) in operations(&id) {
            if path.contains(&id) {
                let response = send_with(&app, &app.keys[0], &path, &body).await;
                assert_eq!(response.error(), (status, code), "{path}: {response:?}");
            }
        }
    }
}
