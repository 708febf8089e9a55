//! Extensions: the expiry moves, and nothing else.

use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::{ledger, tokens};

const ROOT: &str = "tenant:acme";

fn expiry(response: &Response) -> i64 {
    response
        .at("/expires_at_ms")
        .as_i64()
        .unwrap_or_else(|| panic!("{response:?}"))
}

async fn app_with_hold(tenant: &[(&str, &str)]) -> (TestApp, String) {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    app.set_tenant(&[("status", "ACTIVE")]).await;
    if !tenant.is_empty() {
        app.set_tenant(tenant).await;
    }
    let id = app.held(ROOT, 300, json!({})).await;
    (app, id)
}

#[tokio::test]
async fn extensions_add_up_from_the_present_expiry() {
    let (app, id) = app_with_hold(&[]).await;
    let first = expiry(&app.found(&id).await);
    let response = app.extend(&id, "e1", 10_000).await;
    assert_eq!(response.at("/status"), "ACTIVE");
    assert_eq!(expiry(&response), first + 10_000);
    let left = response.at("/remaining_ttl_ms").as_i64().expect("a time");
    assert!((60_000..=70_000).contains(&left), "{left}");
    assert_eq!(expiry(&app.extend(&id, "e2", 10_000).await), first + 20_000);
    assert_eq!(expiry(&app.found(&id).await), first + 20_000);
}

#[tokio::test]
async fn an_extension_shows_the_ledgers_and_changes_none() {
    let (app, id) = app_with_hold(&[]).await;
    let response = app.extend(&id, "e", 1).await;
    let members: Vec<_> = response
        .body
        .as_object()
        .expect("an object")
        .keys()
        .collect();
    assert_eq!(
        members,
        ["balances", "expires_at_ms", "remaining_ttl_ms", "status"]
    );
    assert_eq!(response.at("/balances/0/reserved"), &tokens(300));
    assert_eq!(app.stored_ledger(ROOT).await, ledger(700, 300, 0, 0));
    assert!(app.events().await.is_empty());
}

#[tokio::test]
async fn in_the_grace_period_a_reservation_can_be_committed_but_not_extended() {
    let (app, id) = app_with_hold(&[]).await;
    app.backdate(&id, 1_000).await;
    app.extend(&id, "e", 60_000)
        .await
        .refused(410, "RESERVATION_EXPIRED");
    app.commit(&id, "c", 300).await.expect(200);
}

#[tokio::test]
async fn the_number_of_extensions_is_fixed_at_the_create() {
    let (app, id) = app_with_hold(&[("max_reservation_extensions", "2")]).await;
    app.set_tenant(&[("max_reservation_extensions", "9")]).await;
    app.extend(&id, "", 1).await.refused(400, "INVALID_REQUEST");
    app.set_tenant(&[("status", "CLOSED")]).await;
    app.extend(&id, "e0", 1).await.refused(409, "TENANT_CLOSED");
    app.set_tenant(&[("status", "ACTIVE")]).await;
    assert_eq!(
        app.extend(&id, "e0", 1).await.status,
        200,
        "failures did not count"
    );
    let second = app.extend(&id, "e2", 1).await;
    let third = app
        .extend(&id, "e3", 1)
        .await
        .refused(409, "MAX_EXTENSIONS_EXCEEDED");
    assert!(third.text("/message").contains('2'), "{third:?}");
    assert_eq!(expiry(&app.extend(&id, "e2", 1).await), expiry(&second));
    app.set_tenant(&[("max_reservation_extensions", "0")]).await;
    let none = app.create("k", ROOT, 1, json!({})).await;
    app.extend(none.text("/reservation_id"), "e", 1)
        .await
        .refused(409, "MAX_EXTENSIONS_EXCEEDED");
}

#[tokio::test]
async fn without_a_setting_ten_extensions_are_granted() {
    let (app, id) = app_with_hold(&[]).await;
    for number in 0..10 {
        app.extend(&id, &format!("e{number}"), 1).await.expect(200);
    }
    app.extend(&id, "e10", 1)
        .await
        .refused(409, "MAX_EXTENSIONS_EXCEEDED");
}

#[tokio::test]
async fn a_repeated_extension_returns_its_own_expiry_and_the_time_left() {
    let (app, id) = app_with_hold(&[]).await;
    let first = app.extend(&id, "e1", 10_000).await;
    app.extend(&id, "e2", 500_000).await;
    let before = app.everything().await;
    let clock = app.now_ms().await;
    let again = app.extend(&id, "e1", 10_000).await;
    assert_eq!(expiry(&again), expiry(&first));
    assert_eq!(again.at("/balances"), first.at("/balances"));
    let read_at = expiry(&again) - again.at("/remaining_ttl_ms").as_i64().expect("a time");
    assert!((clock..=app.now_ms().await).contains(&read_at));
    app.extend(&id, "e1", 10_001)
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    assert!(app.everything().await == before);
}

#[tokio::test]
async fn a_repeated_extension_of_an_ended_reservation_has_no_time_left() {
    let ends = ["commit", "release", "lapse", "expire"];
    for end in ends {
        let (app, id) = app_with_hold(&[]).await;
        let first = app.extend(&id, "e", 10_000).await;
        match end {
            "commit" => drop(app.commit(&id, "c", 1).await),
            "release" => drop(app.release(&id, "r").await),
            _ => {
                app.backdate(&id, 60_000).await;
                if end == "expire" {
                    assert_eq!(app.sweep().await, 1);
                }
            }
        }
        let again = app.extend(&id, "e", 10_000).await;
        assert_eq!(
            (again.status, expiry(&again)),
            (200, expiry(&first)),
            "{end}"
        );
        if end != "lapse" {
            assert_eq!(again.at("/remaining_ttl_ms"), 0, "{end}");
        }
    }
}

#[tokio::test]
async fn an_extension_may_exceed_the_maximum_time_to_live() {
    let (app, id) = app_with_hold(&[("max_reservation_ttl_ms", "60000")]).await;
    let before = expiry(&app.found(&id).await);
    let response = app.extend(&id, "e", 86_400_000).await;
    assert_eq!(expiry(&response), before + 86_400_000);
}
