//! The audit entries of refused requests, and secrets that are returned only once.

use budget_authority::domain::ids::Partition;
use reqwest::Method;
use serde_json::json;

use crate::admin::http::{BUDGETS, KEYS, TENANTS, key, umbra, umbra_on};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::redis::shared;
use crate::harness::runtime_calls::tokens;

#[tokio::test]
async fn each_refused_request_is_audited_once() {
    let app = umbra().await;
    let fixture = app.admin_fixture();
    let recorded = |partition: Partition, chain: &str| -> Vec<(String, String)> {
        let entries = fixture.audit(partition, chain).into_iter();
        entries
            .filter_map(|entry| {
                Some((
                    entry.get("operation")?.to_owned(),
                    entry.get("error_code")?.to_owned(),
                ))
            })
            .collect()
    };
    let pair = |operation: &str, code: &str| (operation.to_owned(), code.to_owned());
    let duplicate = json!({"tenant_id": "umbra", "scope": "tenant:umbra", "unit": "TOKENS", "allocated": tokens(1)});
    app.post_as_admin(BUDGETS, duplicate).await.expect(409);
    app.get_as_admin("/v1/admin/no-such").await;
    app.call(
        Method::POST,
        TENANTS,
        &[("X-Admin-API-Key", "wrong")],
        &json!({}),
    )
    .await;
    let (_, reader) = key(&app, &["budgets:read"]).await;
    app.call(
        Method::POST,
        BUDGETS,
        &[("X-Service-API-Key", &reader)],
        &json!({}),
    )
    .await;

    let umbra = tenant_id("umbra").partition();
    assert_eq!(
        recorded(umbra, "umbra"),
        [
            pair("POST:/v1/admin/budgets", "DUPLICATE_RESOURCE"),
            pair("POST:/v1/admin/budgets", "INSUFFICIENT_PERMISSIONS"),
        ]
    );
    assert_eq!(
        recorded(Partition::FIRST, "__admin__"),
        [pair("GET:/v1/admin/no-such", "NOT_FOUND")]
    );
    assert_eq!(
        recorded(Partition::FIRST, "__unauth__"),
        [pair("POST:/v1/admin/tenants", "UNAUTHORIZED")]
    );
    let last = fixture.audit(umbra, "umbra").pop().expect("an entry");
    assert!(last.get("key_id").is_some_and(|id| id.starts_with("key_")));
    assert_eq!(last.get("source_ip"), Some("127.0.0.1"));
}

#[tokio::test]
async fn an_inbound_request_id_is_used_and_returned() {
    let app = umbra().await;
    let headers = [("X-Admin-API-Key", ADMIN_KEY), ("X-Request-Id", "dash-1")];
    let body = json!({"tenant_id": "beta", "name": "Beta"});
    let response = app.call(Method::POST, TENANTS, &headers, &body).await;
    assert_eq!(response.headers["x-request-id"], "dash-1");
    assert_eq!(
        app.admin_fixture().events("beta")[0]["request_id"],
        "dash-1"
    );
}

#[tokio::test]
async fn without_secret_keys_the_idempotency_header_is_refused() {
    let settings = ["--allow-plaintext-secrets"];
    let app = TestApp::spawn_on(&shared().url(), &settings).await;
    let app = umbra_on(app).await;
    let headers = [("X-Admin-API-Key", ADMIN_KEY), ("X-Idempotency-Key", "k")];
    let body = json!({"tenant_id": "umbra", "name": "ci"});
    let response = app
        .call(Method::POST, KEYS, &headers, &body)
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(response.text("/message").contains("X-Idempotency-Key"));
    let created = app.post_as_admin(KEYS, body).await;
    assert_eq!(
        created.at("/permissions").as_array().map(Vec::len),
        Some(10)
    );
    for (body, expected) in [
        (
            json!({"tenant_id": "nobody", "name": "ci"}),
            (400, "TENANT_NOT_FOUND"),
        ),
        (
            json!({"tenant_id": "umbra", "name": "ci", "permissions": ["x"]}),
            (400, "INVALID_REQUEST"),
        ),
        (
            json!({"tenant_id": "umbra", "name": "ci", "expires_at": "2001-01-01T00:00:00Z"}),
            (400, "INVALID_REQUEST"),
        ),
    ] {
        assert_eq!(
            app.post_as_admin(KEYS, body.clone()).await.error(),
            expected,
            "{body}"
        );
    }
}

#[tokio::test]
async fn an_entry_names_the_admin_key_used() {
    const KEYS: [&str; 2] = [
        "named-key-of-the-operators-on-call",
        "nameless-key-of-32-characters-xx",
    ];
    let admin_keys = format!("ops={},{}", KEYS[0], KEYS[1]);
    let app = TestApp::spawn_on(&shared().url(), &["--admin-keys", &admin_keys]).await;
    for (number, key) in KEYS.into_iter().enumerate() {
        let headers = [("X-Admin-API-Key", key)];
        let tenant = format!("t-{number}");
        let make = json!({"tenant_id": &tenant, "name": "T"});
        let made = app.call(Method::POST, TENANTS, &headers, &make).await;
        made.expect(201);
        let budget = json!({"tenant_id": &tenant, "scope": format!("tenant:{tenant}"), "unit": "TOKENS",
                            "allocated": {"unit": "TOKENS", "amount": 1}});
        let made = app.call(Method::POST, BUDGETS, &headers, &budget).await;
        made.expect(201);
        let suspend =
            json!({"filter": {"search": &tenant}, "action": "SUSPEND", "idempotency_key": &tenant});
        let bulk = format!("{TENANTS}/bulk-action");
        app.call(Method::POST, &bulk, &headers, &suspend)
            .await
            .expect(200);
        app.call(Method::POST, &bulk, &headers, &json!({}))
            .await
            .expect(400);
    }
    let fixture = app.admin_fixture();
    for (number, expected) in [Some("ops"), None].into_iter().enumerate() {
        let tenant = tenant_id(&format!("t-{number}"));
        let entries = fixture.audit(tenant.partition(), tenant.as_str());
        assert_eq!(entries.len(), 2, "{entries:?}");
        for entry in entries {
            assert_eq!(entry.get("metadata.actor"), expected, "{entry:?}");
        }
        for event in fixture.events(tenant.as_str()) {
            let actor = json!({"type": event["actor"]["type"], "source_ip": "127.0.0.1"});
            assert_eq!(event["actor"], actor, "{event}");
        }
    }
    let of_bulk = fixture.audit(Partition::FIRST, "__admin__");
    let actors: Vec<_> = of_bulk
        .iter()
        .map(|entry| entry.get("metadata.actor"))
        .collect();
    assert_eq!(
        actors,
        [Some("ops"), Some("ops"), None, None],
        "{of_bulk:?}"
    );
}

#[tokio::test]
async fn only_the_address_added_by_a_trusted_proxy_counts() {
    let url = shared().url();
    for (trusted, lines, expected) in [
        ("127.0.0.0/8", &["198.51.100.7"][..], "198.51.100.7"),
        // Some proxies append to the line, others add one of their own.
        (
            "127.0.0.0/8",
            &["203.0.113.9, 198.51.100.7"],
            "198.51.100.7",
        ),
        (
            "127.0.0.0/8",
            &["203.0.113.9", "198.51.100.7"],
            "198.51.100.7",
        ),
        (
            "127.0.0.0/8,198.51.100.0/24",
            &["203.0.113.9", "198.51.100.7"],
            "203.0.113.9",
        ),
        ("10.0.0.0/8", &["203.0.113.9"], "127.0.0.1"),
    ] {
        let app = TestApp::spawn_on(&url, &["--trusted-proxies", trusted]).await;
        let mut headers = vec![("X-Admin-API-Key", ADMIN_KEY)];
        headers.extend(lines.iter().map(|line| ("X-Forwarded-For", *line)));
        app.call(Method::GET, "/v1/admin/no-such", &headers, &json!({}))
            .await;
        let entry = app
            .admin_fixture()
            .audit(Partition::FIRST, "__admin__")
            .pop();
        let entry = entry.expect("an entry");
        assert_eq!(entry.get("source_ip"), Some(expected), "{lines:?}");
    }
}
