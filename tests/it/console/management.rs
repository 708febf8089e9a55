//! Webhooks and API keys: made, changed and ended from the console; their secrets are shown once.

use reqwest::StatusCode;
use serde_json::json;

use super::reader::Reader;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::deliveries::{RunningDispatcher, fund, here};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply, public_names};

#[tokio::test]
async fn a_webhook_is_made_tested_paused_and_its_events_replayed() {
    let app = here().await;
    let _dispatcher = RunningDispatcher::start(&app);
    let receiver = Receiver::start(Reply::Status(204, "")).await;
    let url = format!("http://receiver.test:{}/in", receiver.address.port());
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let page = reader.get("/console/webhooks").await;
    let key = page.field("key");
    let mut form = [
        ("key", key.as_str()),
        ("tenant", "umbra"),
        ("name", "alerts <b>"),
        ("url", "ftp://receiver.test"),
        ("event_types", "budget.funded"),
    ];
    let refused = reader.post("/console/webhooks", &form).await;
    assert!(
        refused.has("role=\"alert\"") && refused.has("ftp://receiver.test"),
        "{}",
        refused.text
    );
    form[3].1 = &url;
    let made = reader.post("/console/webhooks", &form).await;
    let secret = made
        .text
        .split("class=\"secret\">")
        .nth(1)
        .expect("it is shown");
    assert!(
        secret.len() > 16 && made.has("alerts &lt;b&gt;"),
        "{}",
        made.text
    );
    let link = made
        .text
        .split('"')
        .find(|text| text.starts_with("/console/webhooks/"));
    let path = link.expect("a webhook").to_owned();
    assert!(!reader.get(&path).await.has("class=\"secret\""));
    let act = async |change: &str, more: &[(&str, &str)]| {
        let key = reader.get(&path).await.field("key");
        let form = [&[("key", key.as_str()), ("change", change)], more].concat();
        reader.post(&path, &form).await
    };
    let tested = act("test", &[]).await;
    assert!(
        tested.has("accepted") && tested.has("status 204"),
        "{}",
        tested.text
    );
    fund(&app, 1).await;
    eventually("a delivery", async || {
        let page = reader.get(&format!("{path}?status=SUCCESS")).await;
        page.has("<td>success</td>") && page.has("204 in")
    })
    .await;
    assert_eq!(act("pause", &[]).await.status, StatusCode::SEE_OTHER);
    let paused = reader.get(&format!("{path}?done=pause")).await;
    assert!(
        paused.has("Paused.")
            && paused.has("<strong class=\"bad\">paused")
            && paused.has(">Resume<"),
        "{}",
        paused.text
    );
    assert_eq!(act("resume", &[]).await.status, StatusCode::SEE_OTHER);
    let arrived = receiver.arrived().len();
    let replayed = act("replay", &[("from", "2026-01-01T00:00")]).await;
    assert!(
        replayed.has("1 event will be delivered again."),
        "{}",
        replayed.text
    );
    eventually("the same event again", async || {
        receiver.arrived().len() == arrived + 1
    })
    .await;
    let wrong = act("replay", &[("from", "yesterday")]).await;
    assert!(
        wrong.has("role=\"alert\"") && wrong.has("from"),
        "{}",
        wrong.text
    );
    assert_eq!(act("delete", &[]).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_tenant_sees_its_webhooks_and_needs_the_permission_to_act() {
    let app = TestApp::spawn_reaching(public_names(), &[]).await;
    let hook = json!({"url": "https://hooks.shop.example/in", "event_types": ["budget.funded"]});
    let made = app
        .post_as_admin("/v1/admin/webhooks?tenant_id=acme", hook)
        .await
        .expect(201);
    let path = format!(
        "/console/webhooks/{}",
        made.text("/subscription/subscription_id")
    );
    let key = app.add_key(0, &[("permissions", " webhooks:read ")]).await;
    let reader = Reader::with_key(&app, &key).await;
    assert!(reader.get("/console/webhooks").await.has(&path));
    let page = reader.get(&path).await;
    assert!(page.has("https://hooks.shop.example/in"), "{}", page.text);
    let key = page.field("key");
    let form = [("key", key.as_str()), ("change", "pause")];
    let refused = reader.post(&path, &form).await;
    assert!(refused.has("role=\"alert\""), "{}", refused.text);
    assert!(reader.get(&path).await.has("<dd>active"));
}

#[tokio::test]
async fn an_api_key_is_made_and_revoked() {
    let app = TestApp::spawn().await;
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let key = reader.get("/console/keys").await.field("key");
    let form = [
        ("key", key.as_str()),
        ("tenant", "acme"),
        ("name", "quick"),
        ("scope_filter", "tenant:acme/app:chat"),
        ("expires_at", "2031-05-06"),
        ("permissions", "budgets:read"),
        ("permissions", "balances:read"),
    ];
    let made = reader.post("/console/keys", &form).await;
    let secret = made
        .text
        .split("class=\"secret\">")
        .nth(1)
        .expect("it is shown");
    let secret = secret.split('<').next().expect("its end");
    app.get_with(secret, "/v1/balances?tenant=acme&app=chat")
        .await
        .expect(200);
    let link = made
        .text
        .split('"')
        .find(|text| text.starts_with("/console/keys/key_"));
    let path = link.expect("a key").to_owned();
    let page = reader.get(&path).await;
    for text in [
        "<h1>quick</h1>",
        "tenant:acme/app:chat",
        "<dd>budgets:read, balances:read",
        "2031-05-06T00:00:00",
    ] {
        assert!(page.has(text), "{text}: {}", page.text);
    }
    assert!(!page.has(secret));
    let key = page.field("key");
    let form = [("key", key.as_str()), ("reason", "it leaked")];
    for _ in 0..2 {
        let done = reader.post(&path, &form).await;
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    }
    let page = reader.get(&path).await;
    assert!(
        page.has("revoked</strong>: it leaked") && !page.has("Revoke<"),
        "{}",
        page.text
    );
    app.get_with(secret, "/v1/balances?tenant=acme&app=chat")
        .await
        .expect(401);
    let other = reader.get("/console/keys/key_none").await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
}
