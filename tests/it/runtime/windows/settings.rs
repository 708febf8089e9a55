//! Setting, replacing and removing limits over windows.

use serde_json::{Value, json};

use super::{BUDGETS, ROOT, found, limit, limited, path, used};
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{tokens, with};

#[tokio::test]
async fn a_limit_that_stays_continues_its_count() {
    let app = TestApp::spawn().await;
    let local = with(limit("P1D", 100), json!({"time_zone": "Europe/Berlin"}));
    limited(&app, ROOT, json!([limit("PT1H", 50), local])).await;
    app.post_event("e", ROOT, 30, json!({})).await.expect(201);
    let body = json!({"limits": [limit("P1D", 200), with(limit("P1D", 90), json!({"time_zone": "Europe/Berlin"})), limit("PT1H", 20)]});
    let changed = app
        .patch_as_admin(&path(""), body.clone())
        .await
        .expect(200);
    assert_eq!(used(&app).await, [0, 30, 30]);
    assert_eq!(changed.at("/limits/2/amount"), &tokens(20));
    let refused = app.create("r", ROOT, 1, json!({})).await;
    assert_eq!(
        refused
            .refused(409, "BUDGET_EXCEEDED")
            .at("/details/limit/amount"),
        &tokens(20)
    );
    // What changes nothing is no change.
    let updated = |events: Vec<crate::harness::runtime_calls::Event>| {
        events
            .iter()
            .filter(|event| event.get("type") == "budget.updated")
            .count()
    };
    assert_eq!(updated(app.events().await), 1);
    app.patch_as_admin(&path(""), body).await.expect(200);
    assert_eq!(updated(app.events().await), 1);
    assert_eq!(used(&app).await, [0, 30, 30]);
}

#[tokio::test]
async fn null_and_an_empty_list_remove_limits() {
    let app = TestApp::spawn().await;
    limited(&app, ROOT, Value::Null).await;
    for none in [Value::Null, json!([])] {
        let body = json!({"limits": [limit("PT1H", 50)]});
        app.patch_as_admin(&path(""), body).await.expect(200);
        app.create("r", ROOT, 51, json!({})).await.expect(409);
        let changed = app
            .patch_as_admin(&path(""), json!({"limits": none}))
            .await
            .expect(200);
        assert_eq!(changed.at("/limits"), &Value::Null);
        app.dry_run("d", ROOT, 51).await.expect(200);
    }
    app.create("r", ROOT, 51, json!({})).await.expect(200);
}

#[tokio::test]
async fn limits_that_make_no_sense_are_refused_and_change_nothing() {
    let app = TestApp::spawn().await;
    limited(&app, ROOT, json!([limit("PT1H", 50)])).await;
    let before = found(&app).await;
    let other = json!({"every": "PT1H", "amount": {"unit": "CREDITS", "amount": 5}});
    for (limits, code, named) in [
        (
            json!([limit("PT30S", 1)]),
            "INVALID_REQUEST",
            "limits[0].every: must be minutes",
        ),
        (
            json!([limit("PT1H", 1), limit("PT1H", 2)]),
            "INVALID_REQUEST",
            "limits: [1] has the windows of another limit",
        ),
        (
            json!(vec![limit("PT1H", 1); 5]),
            "INVALID_REQUEST",
            "limits: must have at most 4 items, not 5",
        ),
        (
            json!([other]),
            "UNIT_MISMATCH",
            "limits[0].amount is in CREDITS",
        ),
    ] {
        let refused = app
            .patch_as_admin(&path(""), json!({"limits": limits}))
            .await;
        let refused = refused.refused(400, code);
        assert!(refused.text("message").contains(named), "{refused:?}");
        let body = json!({
            "tenant_id": "acme", "scope": "tenant:acme/app:a", "unit": "TOKENS", "allocated": tokens(5), "limits": limits,
        });
        let refused = app.post_as_admin(BUDGETS, body).await.refused(400, code);
        assert!(refused.text("message").contains(named), "{refused:?}");
    }
    assert_eq!(found(&app).await, before);
}
