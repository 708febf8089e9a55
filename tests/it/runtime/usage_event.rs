//! Usage events: what was already used is charged, as far as the policy allows.

use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{State, event_body, ledger, over, tokens, with};

const ROOT: &str = "tenant:acme";
const AIA: &str = "ALLOW_IF_AVAILABLE";
const AWO: &str = "ALLOW_WITH_OVERDRAFT";

#[tokio::test]
async fn an_event_is_created_once_and_replayed_unchanged() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let response = app.post_event("k", ROOT, 100, json!({})).await;
    assert_eq!(
        (response.status, response.at("/status")),
        (201, &json!("APPLIED"))
    );
    let id = response.text("/event_id");
    assert!(
        id.len() <= 128
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    );
    assert!(response.body.get("charged").is_none());
    assert_eq!(response.at("/balances/0/remaining"), &tokens(900));
    app.post_event("k2", ROOT, 100, json!({})).await;
    let before = app.everything().await;
    let again = app.post_event("k", ROOT, 100, json!({})).await;
    assert_eq!((again.status, again.body), (201, response.body));
    assert!(app.everything().await == before);
    app.post_event("k", ROOT, 101, json!({}))
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    assert_eq!(app.stored_ledger(ROOT).await, ledger(800, 0, 200, 0));
}

#[tokio::test]
async fn the_overage_policy_refuses_caps_or_owes_an_event() {
    let app = TestApp::spawn().await;
    let exact = Some((ledger(0, 0, 1_000, 0), ledger(260, 0, 240, 0), 40));
    let capped = Some((over(ledger(0, 0, 1_000, 0)), ledger(260, 0, 240, 0), 40));
    let owed = Some((ledger(-60, 0, 1_000, 60), ledger(200, 0, 300, 0), 100));
    let same = Some((ledger(40, 0, 960, 0), ledger(300, 0, 200, 0), 0));
    let rows = [
        (40, "REJECT", [0, 0], exact),
        (40, AIA, [0, 0], exact),
        (40, AWO, [0, 0], exact),
        (40, AWO, [1, 0], exact),
        (100, "REJECT", [0, 0], None),
        (100, "REJECT", [500, 500], None),
        (100, AIA, [0, 0], capped),
        (100, AIA, [500, 500], capped),
        (100, AWO, [0, 0], capped),
        (100, AWO, [60, 0], None),
        (100, AWO, [100, 0], owed),
        (0, "REJECT", [0, 0], same),
        (0, AIA, [0, 0], same),
    ];
    for (row, (actual, policy, limits, outcome)) in rows.into_iter().enumerate() {
        let outer = format!("workspace:row{row}");
        let inner = format!("{outer}/agent:a");
        let before = [ledger(40, 0, 960, 0), ledger(300, 0, 200, 0)];
        app.place(&outer, 1_000, limits[0], before[0]).await;
        app.place(&inner, 500, limits[1], before[1]).await;
        let policy_member = json!({"overage_policy": policy});
        let response = app.post_event(&outer, &inner, actual, policy_member).await;
        let (outer_after, inner_after, charged) = outcome.unwrap_or((before[0], before[1], 0));
        if outcome.is_none() {
            let code = if policy == AWO {
                "OVERDRAFT_LIMIT_EXCEEDED"
            } else {
                "BUDGET_EXCEEDED"
            };
            assert_eq!(response.error(), (409, code), "row {row}");
            assert_eq!(response.at("/details/scope"), &json!(outer), "row {row}");
        } else {
            let expected = (charged < actual).then(|| tokens(charged));
            assert_eq!(
                (response.status, response.body.get("charged")),
                (201, expected.as_ref()),
                "row {row}"
            );
        }
        assert_eq!(app.stored_ledger(&outer).await, outer_after, "row {row}");
        assert_eq!(app.stored_ledger(&inner).await, inner_after, "row {row}");
    }
}

#[tokio::test]
async fn an_event_of_zero_passes_below_zero_without_a_flag() {
    let app = TestApp::spawn().await;
    for policy in ["REJECT", AIA, AWO] {
        let scope = format!("tenant:acme/app:{}", policy.to_lowercase());
        app.place(&scope, 1_000, 10, ledger(-50, 0, 0, 50)).await;
        let before = app.stored_ledger(&scope).await;
        let response = app
            .post_event(policy, &scope, 0, json!({"overage_policy": policy}))
            .await;
        assert_eq!(
            (response.status, response.body.get("charged")),
            (201, None),
            "{policy}"
        );
        assert_eq!(app.stored_ledger(&scope).await, before, "{policy}");
    }
}

#[tokio::test]
async fn debt_and_the_limit_do_not_stop_an_event_and_a_closed_ledger_does() {
    let app = TestApp::spawn().await;
    let rows: [(State, u16, &str); 4] = [
        (&[("is_over_limit", "1")], 201, "none"),
        (&[("debt", "100"), ("remaining", "900")], 201, "none"),
        (&[("status", "FROZEN")], 409, "BUDGET_FROZEN"),
        (&[("status", "CLOSED")], 409, "BUDGET_CLOSED"),
    ];
    for (row, (state, status, code)) in rows.into_iter().enumerate() {
        for actual in [10, 0] {
            let (outer, key) = (format!("workspace:row{row}"), format!("k{row}.{actual}"));
            let inner = format!("{outer}/agent:a");
            app.budget(&outer, 1_000, 500).await;
            app.budget(&inner, 1_000, 500).await;
            app.set_ledger(&inner, state).await;
            let response = app.post_event(&key, &inner, actual, json!({})).await;
            assert_eq!(
                response.error(),
                (status, code),
                "row {row}, actual {actual}"
            );
            let charged = if status == 201 { actual } else { 0 };
            assert_eq!(app.stored_ledger(&outer).await.spent, charged, "row {row}");
        }
    }
}

#[tokio::test]
async fn the_amount_of_a_late_commit_can_be_charged_as_an_event_under_its_key() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 300, 0).await;
    let id = app.held(ROOT, 300, json!({})).await;
    app.backdate(&id, 60_000).await;
    app.commit(&id, "c", 250)
        .await
        .refused(410, "RESERVATION_EXPIRED");
    let metadata = json!({"metadata": {"recovered_reservation_id": id}});
    let response = app.post_event("c", ROOT, 250, metadata).await;
    assert_eq!(
        (response.status, response.body.get("charged")),
        (201, None),
        "{response:?}"
    );
    assert_eq!(app.stored_ledger(ROOT).await, ledger(50, 0, 250, 0));
}

#[tokio::test]
async fn the_clients_clock_has_no_effect() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    for time in [0, 4_102_444_800_000_i64, i64::MAX] {
        let key = format!("k{time}");
        let response = app
            .post_event(&key, ROOT, 1, json!({"client_time_ms": time}))
            .await
            .expect(201);
        let mut other = event_body(&key, ROOT, 1);
        app.post("/v1/events", other.clone())
            .await
            .refused(409, "IDEMPOTENCY_MISMATCH");
        other["client_time_ms"] = json!(time);
        assert_eq!(app.post("/v1/events", other).await.body, response.body);
    }
    app.post_event("k", ROOT, 1, json!({"client_time_ms": -1}))
        .await
        .refused(400, "INVALID_REQUEST");
    assert_eq!(app.stored_ledger(ROOT).await, ledger(997, 0, 3, 0));
}

#[tokio::test]
async fn an_event_has_no_dry_run_and_no_lease() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    for more in [
        json!({"dry_run": true}),
        json!({"dry_run": false}),
        json!({"ttl_ms": 1_000}),
    ] {
        let body = with(event_body("k", ROOT, 1), more);
        app.post("/v1/events", body)
            .await
            .refused(400, "INVALID_REQUEST");
    }
    assert_eq!(app.stored_ledger(ROOT).await, ledger(1_000, 0, 0, 0));
}

#[tokio::test]
async fn debt_grows_to_the_end_of_sixty_four_bits() {
    let app = TestApp::spawn().await;
    let max = i64::MAX;
    app.budget(ROOT, 0, max).await;
    let awo = json!({"overage_policy": AWO});
    app.post_event("k1", ROOT, max - 1, awo.clone())
        .await
        .expect(201);
    assert_eq!(
        app.stored_ledger(ROOT).await,
        ledger(-(max - 1), 0, 0, max - 1)
    );
    let response = app.post_event("k2", ROOT, 1, awo.clone()).await;
    assert_eq!(response.at("/balances/0/remaining"), &tokens(-max));
    assert_eq!(app.stored_ledger(ROOT).await, ledger(-max, 0, 0, max));
    app.post_event("k3", ROOT, 1, awo)
        .await
        .refused(409, "OVERDRAFT_LIMIT_EXCEEDED");
    assert_eq!(app.stored_ledger(ROOT).await, ledger(-max, 0, 0, max));
}

#[tokio::test]
async fn the_overage_policy_of_an_event_comes_from_request_ledger_tenant_or_default() {
    let app = TestApp::spawn().await;
    let rows = [
        ("", "", "", 40),
        ("", "", AWO, 100),
        ("", AIA, AWO, 40),
        ("", AWO, "REJECT", 100),
        (AIA, "REJECT", "REJECT", 40),
        ("REJECT", AWO, AWO, 0),
    ];
    for (row, (request, on_ledger, tenant, charged)) in rows.into_iter().enumerate() {
        let scope = format!("tenant:acme/app:row{row}");
        app.budget(&scope, 40, 100).await;
        if !on_ledger.is_empty() {
            app.set_ledger(&scope, &[("commit_overage_policy", on_ledger)])
                .await;
        }
        if !tenant.is_empty() {
            app.set_tenant(&[("default_commit_overage_policy", tenant)])
                .await;
        }
        let more = match request {
            "" => json!({}),
            policy => json!({"overage_policy": policy}),
        };
        let response = app.post_event(&scope, &scope, 100, more).await;
        match charged {
            0 => assert_eq!(response.error(), (409, "BUDGET_EXCEEDED"), "row {row}"),
            100 => assert_eq!(
                (response.status, response.body.get("charged")),
                (201, None),
                "row {row}"
            ),
            _ => assert_eq!(
                response.at("/charged"),
                &tokens(charged),
                "row {row}: {response:?}"
            ),
        }
    }
    app.set_tenant(&[("default_commit_overage_policy", "NONSENSE")])
        .await;
    let free = "tenant:acme/app:free";
    app.budget(free, 40, 0).await;
    let before = app.everything().await;
    app.post_event("n", free, 1, json!({}))
        .await
        .refused(500, "INTERNAL_ERROR");
    app.create("n", free, 1, json!({}))
        .await
        .refused(500, "INTERNAL_ERROR");
    assert!(app.everything().await == before);
}
