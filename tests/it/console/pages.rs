//! Pages that are read more than changed: usage, a reservation, and the lists.

use budget_authority::domain::amount::Unit;
use reqwest::{StatusCode, header};
use serde_json::json;

use super::CHAT;
use super::reader::Reader;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::runtime_calls::{event_body, with};

#[tokio::test]
async fn usage_is_a_table_a_chart_and_csv() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 2_000, 0).await;
    app.post_event("e1", CHAT, 1_234, json!({}))
        .await
        .expect(201);
    for (key, tenant) in [(ADMIN_KEY, "tenant=acme"), (app.keys[0].as_str(), "")] {
        let reader = Reader::with_key(&app, key).await;
        let page = reader
            .get(&format!("/console/usage?{tenant}&group_by=app"))
            .await;
        assert!(
            page.has("<td>chat</td><td>1,234 tokens <small>1234 TOKENS</small>"),
            "{}",
            page.text
        );
        assert!(
            page.has("class=\"chart\"") && page.has(": 1,234 tokens</title>"),
            "{}",
            page.text
        );
        let link = page
            .text
            .split('"')
            .find(|text| text.starts_with("/console/usage.csv"));
        let csv = reader
            .get(&link.expect("a link").replace("&amp;", "&"))
            .await;
        assert_eq!(csv.status, StatusCode::OK, "{}", csv.text);
        assert!(
            csv.has("app,other,unit,charged") && csv.has("chat,false,TOKENS,1234,0,1"),
            "{}",
            csv.text
        );
        assert!(
            csv.header(header::CONTENT_DISPOSITION)
                .contains("usage.csv")
        );
    }
    // Each unit has a chart of its own.
    app.budget_in(CHAT, Unit::Credits, 50, 0).await;
    let body = with(
        event_body("e2", CHAT, 7),
        json!({"actual": {"unit": "CREDITS", "amount": 7}}),
    );
    app.post("/v1/events", body).await.expect(201);
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let page = reader.get("/console/usage?tenant=acme").await;
    for most in [
        "CREDITS by day",
        "at most 7 credits",
        "TOKENS by day",
        "at most 1,234 tokens",
    ] {
        assert!(page.has(most), "{most}: {}", page.text);
    }
    assert_eq!(
        page.text.matches("height=\"100.0\"").count(),
        2,
        "{}",
        page.text
    );
    assert!(reader.get("/console/usage").await.has("Name a tenant"));
    let wrong = reader
        .get("/console/usage?tenant=acme&from=yesterday")
        .await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(
        wrong.has("from") && wrong.has("2026-07-04"),
        "{}",
        wrong.text
    );
}

#[tokio::test]
async fn a_reservation_is_released_or_its_charge_refunded() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 2_000, 0).await;
    let held = app.held(CHAT, 500, json!({})).await;
    let charged = app.create("second", CHAT, 300, json!({})).await.expect(200);
    let charged = charged.text("/reservation_id").to_owned();
    app.commit(&charged, "c1", 300).await.expect(200);
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let path = format!("/console/reservations/{held}");
    let page = reader.get(&path).await;
    assert!(
        page.has("500 tokens") && page.has("gpt-4o-mini") && page.has("A release gives back"),
        "{}",
        page.text
    );
    let (key, again) = (page.field("key"), "/console/reservations/r000_none");
    let form = [
        ("key", key.as_str()),
        ("change", "release"),
        ("reason", "stuck"),
    ];
    for _ in 0..2 {
        let done = reader.post(&path, &form).await;
        assert_eq!(
            done.header(header::LOCATION),
            format!("{path}?done=release"),
            "{}",
            done.text
        );
    }
    let path = format!("/console/reservations/{charged}");
    let form = [
        ("key", "k1"),
        ("change", "refund"),
        ("unit", "TOKENS"),
        ("amount", "1,000"),
        ("reason", "wrong"),
    ];
    let refused = reader.post(&path, &form).await;
    assert!(refused.has("role=\"alert\""), "{}", refused.text);
    let form = [
        ("key", "k2"),
        ("change", "refund"),
        ("unit", "TOKENS"),
        ("amount", "100"),
        ("reason", "wrong"),
    ];
    assert_eq!(
        reader.post(&path, &form).await.status,
        StatusCode::SEE_OTHER
    );
    assert!(
        reader
            .get(&path)
            .await
            .has("<dt>refunded</dt><dd>100 tokens</dd>")
    );
    assert_eq!(app.figures(CHAT).await, (1_800, 0, 200, 0));
    assert_eq!(
        reader.post_from("cross-site", &path, &form).await.status,
        StatusCode::FORBIDDEN
    );
    assert!(reader.get(again).await.status.is_client_error());
}

#[tokio::test]
async fn the_lists_are_for_those_who_may_read_them() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    app.post_event("e1", CHAT, 100, json!({})).await.expect(201);
    let body = json!({"tenant_id": "acme", "name": "quick", "scope_pattern": "tenant:acme/app:*"});
    app.post_as_admin("/v1/admin/policies", body)
        .await
        .expect(201);
    let operator = Reader::with_key(&app, ADMIN_KEY).await;
    let permissions = " admin:read events:read webhooks:read ";
    let key = app.add_key(0, &[("permissions", permissions)]).await;
    let tenant = Reader::with_key(&app, &key).await;
    for (list, text) in [
        ("events", "budget.exhausted"),
        ("audit", "createPolicy"),
        ("webhooks", "No webhook."),
        ("keys", "<h1>API keys</h1>"),
        ("policies", "quick <small>pol_"),
    ] {
        let path = format!("/console/{list}?tenant=acme");
        let page = operator.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{list}: {}", page.text);
        assert!(page.has(text), "{list}: {}", page.text);
        let page = tenant.get(&path).await;
        match list {
            "audit" | "keys" => assert_eq!(page.status, StatusCode::NOT_FOUND),
            _ => assert!(page.has(text), "{list}: {}", page.text),
        }
    }
    let audited = operator.get("/console/audit").await;
    assert!(!audited.has("listPolicies"), "{}", audited.text);
    assert!(
        operator
            .get("/console/policies")
            .await
            .has("Name a tenant.")
    );
    assert_eq!(operator.get("/console").await.status, StatusCode::OK);
    let after = operator.get("/console/audit").await;
    let entries = |text: &str| text.matches("<tr>").count();
    assert_eq!(
        entries(&after.text),
        entries(&audited.text),
        "pages that are read leave no entries"
    );
}
