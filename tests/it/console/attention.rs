//! What needs attention: budgets that are nearly used up or frozen, keys that end soon, a dispatcher that is missing.

use reqwest::StatusCode;
use serde_json::json;

use super::reader::Reader;
use super::{CHAT, shop};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::event_log::follow;
use crate::harness::runtime_calls::{event_body, tokens};

#[tokio::test]
async fn the_overview_lists_what_needs_attention() {
    let app = TestApp::spawn().await;
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let page = reader.get("/console").await;
    assert!(
        page.has("No dispatcher</strong> has worked here yet"),
        "{}",
        page.text
    );
    // What it reads is cached for half a minute: another replica has not read yet.
    let key = shop(&app).await;
    for (scope, amount) in [
        ("tenant:shop/app:till", 9_600),
        ("tenant:shop/app:search", 300),
    ] {
        let body = json!({"tenant_id": "shop", "scope": scope, "unit": "TOKENS", "allocated": tokens(10_000)});
        app.post_as_admin("/v1/admin/budgets", body)
            .await
            .expect(201);
        app.post_with(&key, "/v1/events", &event_body(scope, scope, amount))
            .await
            .expect(201);
    }
    let path = "/v1/admin/budgets/freeze?scope=tenant:shop/app:search&unit=TOKENS";
    app.post_as_admin(path, json!({})).await.expect(200);
    let soon = app.now_ms().await + 86_400_000 * 3;
    let soon = budget_authority::domain::moment::Moment::from_ms(soon).expect("a time");
    let key = json!({"tenant_id": "shop", "name": "ends soon", "expires_at": soon.to_string()});
    app.post_as_admin("/v1/admin/api-keys", key)
        .await
        .expect(201);
    follow(&app.store).await;
    let other = app.replica(&[]).await;
    let reader = Reader::with_key(&other, ADMIN_KEY).await;
    let page = reader.get("/console").await;
    for text in [
        "Above 95 %, of those that crossed it last",
        "96.0 % spent",
        "Frozen last",
        ">ends soon</a> of shop ends in 3 days",
    ] {
        assert!(page.has(text), "{text}: {}", page.text);
    }
    assert!(!page.has("No dispatcher"), "{}", page.text);
    let spend = reader.get("/console/spend").await;
    for text in ["9,600 tokens</td>", "at most 9,900 tokens"] {
        assert!(spend.has(text), "{text}: {}", spend.text);
    }
    // What an operator has just read is not for tenants.
    let tenant = Reader::with_key(&other, &app.keys[0].clone()).await;
    let spend = tenant.get("/console/spend").await;
    assert!(
        spend.status == StatusCode::FORBIDDEN && !spend.has("9,600"),
        "{}",
        spend.text
    );
}

#[tokio::test]
async fn the_budgets_of_a_tenant_are_a_tree_and_can_be_searched() {
    let app = TestApp::spawn().await;
    for (scope, amount) in [
        ("tenant:acme", 9_000),
        (CHAT, 1_000),
        ("tenant:acme/app:chat/agent:helper", 100),
    ] {
        app.budget(scope, amount, 0).await;
    }
    app.post_event("e1", "tenant:acme/app:chat/agent:helper", 100, json!({}))
        .await
        .expect(201);
    let reader = Reader::with_key(&app, &app.keys[0].clone()).await;
    let show = async |query: &str| reader.get(&format!("/console/tenants/acme{query}")).await;
    let tree = show("").await;
    let at = |text: &str| {
        tree.text
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {}", tree.text))
    };
    assert!(
        at("class=\"depth0\"") < at("class=\"depth1\"")
            && at("class=\"depth1\"") < at("class=\"depth2\"")
    );
    assert!(
        tree.has(">app:chat</a>") && tree.has("used up"),
        "{}",
        tree.text
    );
    let found = show("?search=HELPER").await;
    assert!(
        found.has("tenant:acme/app:chat/</span>agent:helper") && !found.has("9,000 tokens"),
        "{}",
        found.text
    );
    let nearly = show("?show=nearly").await;
    assert!(
        nearly.has("agent:helper") && !nearly.has("9,000 tokens"),
        "{}",
        nearly.text
    );
    assert!(show("?show=frozen").await.has("No budget matches."));
    let used = show("?sort_by=utilization").await;
    assert!(
        used.has("tenant:acme/app:chat/</span>agent:helper</a>"),
        "{}",
        used.text
    );
    for wrong in ["?sort_by=luck", "?show=lucky"] {
        assert_eq!(show(wrong).await.status, StatusCode::BAD_REQUEST);
    }
}
