//! Overage: what the policy does with a commit beyond its hold.

use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{Ledger, ledger, over, tokens};

const ROOT: &str = "tenant:acme";

/// 300 held of 1000, 400 used. Before: remaining, debt. Then policy, limit, and either the code of the refusal or the
/// ledger after it and what was charged.
type Overage = (
    i64,
    i64,
    &'static str,
    i64,
    Result<(Ledger, i64), &'static str>,
);

fn overages() -> Vec<Overage> {
    const AIA: &str = "ALLOW_IF_AVAILABLE";
    const AWO: &str = "ALLOW_WITH_OVERDRAFT";
    let (exceeded, limited) = (Err("BUDGET_EXCEEDED"), Err("OVERDRAFT_LIMIT_EXCEEDED"));
    let ok = |ledger, charged| Ok((ledger, charged));
    let capped = |charged| Ok((over(ledger(0, 0, 1_000, 0)), charged));
    vec![
        (700, 0, "REJECT", 0, exceeded),
        (40, 0, "REJECT", 500, exceeded),
        (0, 0, "REJECT", 0, exceeded),
        (-50, 50, "REJECT", 500, exceeded),
        (700, 0, AIA, 0, ok(ledger(600, 0, 400, 0), 400)),
        (700, 0, AWO, 0, ok(ledger(600, 0, 400, 0), 400)),
        (700, 0, AWO, 50, ok(ledger(600, 0, 400, 0), 400)),
        (100, 0, AIA, 50, ok(ledger(0, 0, 1_000, 0), 400)),
        (100, 0, AWO, 0, ok(ledger(0, 0, 1_000, 0), 400)),
        (100, 0, AWO, 1, ok(ledger(0, 0, 1_000, 0), 400)),
        (99, 0, AIA, 0, capped(399)),
        (40, 0, AIA, 0, capped(340)),
        (40, 0, AIA, 500, capped(340)),
        (0, 0, AIA, 0, capped(300)),
        (-50, 50, AIA, 0, ok(over(ledger(-50, 0, 1_000, 50)), 300)),
        (40, 0, AWO, 0, capped(340)),
        (0, 0, AWO, 0, capped(300)),
        (40, 0, AWO, 59, limited),
        (40, 0, AWO, 60, limited),
        (40, 0, AWO, 80, limited),
        (40, 0, AWO, 99, limited),
        (40, 0, AWO, 100, ok(ledger(-60, 0, 1_000, 60), 400)),
        (0, 0, AWO, 99, limited),
        (0, 0, AWO, 100, ok(ledger(-100, 0, 1_000, 100), 400)),
        (-50, 50, AWO, 149, limited),
        (-50, 50, AWO, 150, ok(ledger(-150, 0, 1_000, 150), 400)),
        (-50, 50, AWO, i64::MAX, ok(ledger(-150, 0, 1_000, 150), 400)),
    ]
}

#[tokio::test]
async fn the_overage_policy_decides_on_one_scope() {
    let app = TestApp::spawn().await;
    for (row, (remaining, debt, policy, limit, outcome)) in overages().into_iter().enumerate() {
        let scope = format!("tenant:acme/app:row{row}");
        app.budget(&scope, 1_000, limit).await;
        let id = app
            .held(&scope, 300, json!({"overage_policy": policy}))
            .await;
        let before = ledger(remaining, 300, 1_000 - 300 - debt - remaining, debt);
        app.place(&scope, 1_000, limit, before).await;
        let response = app.commit(&id, "c", 400).await;
        match outcome {
            Err(code) => {
                assert_eq!(response.error(), (409, code), "row {row}");
                assert_eq!(response.at("/details/scope"), &json!(scope), "row {row}");
                assert_eq!(app.stored_ledger(&scope).await, before, "row {row}");
                assert_eq!(app.found(&id).await.at("/status"), "ACTIVE", "row {row}");
                assert_eq!(app.release(&id, "r").await.status, 200, "row {row}");
            }
            Ok((after, charged)) => {
                assert_eq!(
                    response.at("/charged"),
                    &tokens(charged),
                    "row {row}: {response:?}"
                );
                assert!(response.body.get("released").is_none(), "row {row}");
                assert_eq!(app.stored_ledger(&scope).await, after, "row {row}");
                assert_eq!(app.found(&id).await.at("/committed"), &tokens(charged));
                let flag = response.at("/balances/0/is_over_limit") == &json!(true);
                assert_eq!(flag, after.over, "row {row}");
            }
        }
    }
}

/// 300 held on each of three nested scopes, and what was left of 1000 before: 40, 70 and 500. Outermost first.
fn before_overage() -> [Ledger; 3] {
    [
        ledger(40, 300, 660, 0),
        ledger(70, 300, 630, 0),
        ledger(500, 300, 200, 0),
    ]
}

/// Puts three nested scopes with these limits in place; returns them, and the reservation that holds on them.
pub async fn three_scopes(
    app: &TestApp,
    outer: &str,
    policy: &str,
    limits: [i64; 3],
) -> ([String; 3], String) {
    let scopes = ["", "/app:m", "/app:m/agent:i"].map(|below| format!("{outer}{below}"));
    for scope in &scopes {
        app.budget(scope, 1_000, 0).await;
    }
    let id = app
        .held(&scopes[2], 300, json!({"overage_policy": policy}))
        .await;
    for (scope, (limit, found)) in scopes.iter().zip(limits.into_iter().zip(before_overage())) {
        app.place(scope, 1_000, limit, found).await;
    }
    (scopes, id)
}

#[tokio::test]
async fn overage_on_three_scopes_charges_one_amount() {
    let app = TestApp::spawn().await;
    let (aia, awo) = ("ALLOW_IF_AVAILABLE", "ALLOW_WITH_OVERDRAFT");
    let limited = "OVERDRAFT_LIMIT_EXCEEDED";
    let capped = [
        over(ledger(0, 0, 1_000, 0)),
        over(ledger(30, 0, 970, 0)),
        ledger(460, 0, 540, 0),
    ];
    let mixed = [
        ledger(-30, 0, 1_000, 30),
        over(ledger(0, 0, 1_000, 0)),
        ledger(430, 0, 570, 0),
    ];
    let owed = [
        ledger(-60, 0, 1_000, 60),
        ledger(-30, 0, 1_000, 30),
        ledger(400, 0, 600, 0),
    ];
    let rows = [
        (aia, [0, 0, 0], Ok(340), capped),
        (aia, [200, 200, 200], Ok(340), capped),
        (awo, [0, 0, 0], Ok(340), capped),
        (awo, [200, 0, 50], Ok(370), mixed),
        (awo, [200, 200, 0], Ok(400), owed),
        (awo, [50, 200, 0], Err(limited), before_overage()),
    ];
    for (row, (policy, limits, outcome, after)) in rows.into_iter().enumerate() {
        let outer = format!("workspace:row{row}");
        let (scopes, id) = three_scopes(&app, &outer, policy, limits).await;
        let response = app.commit(&id, "c", 400).await;
        match outcome {
            Ok(charged) => assert_eq!(
                response.at("/charged"),
                &tokens(charged),
                "row {row}: {response:?}"
            ),
            Err(code) => {
                assert_eq!(response.error(), (409, code), "row {row}");
                assert_eq!(response.at("/details/scope"), &json!(outer), "row {row}");
            }
        }
        for (scope, after) in scopes.iter().zip(after) {
            assert_eq!(app.stored_ledger(scope).await, after, "row {row}, {scope}");
        }
    }
}

#[tokio::test]
async fn overage_beyond_doubles_is_funded_and_owed_exactly() {
    let app = TestApp::spawn().await;
    let max = i64::MAX;
    let awo = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
    app.budget(ROOT, max, max).await;
    let id = app.held(ROOT, 1, awo.clone()).await;
    assert_eq!(app.commit(&id, "c", max).await.at("/charged"), &tokens(max));
    assert_eq!(app.stored_ledger(ROOT).await, ledger(0, 0, max, 0));

    let (outer, inner) = ("workspace:big", "workspace:big/agent:a");
    app.budget(outer, 0, max).await;
    app.budget(inner, 0, max).await;
    let id = app.held(inner, 0, awo.clone()).await;
    assert_eq!(app.commit(&id, "c", max).await.at("/charged"), &tokens(max));
    assert_eq!(app.stored_ledger(outer).await, ledger(-max, 0, 0, max));
    assert_eq!(app.stored_ledger(inner).await, ledger(-max, 0, 0, max));

    let full = "workspace:full";
    app.budget(full, 0, max).await;
    let id = app.held(full, 0, awo).await;
    app.place(full, 0, max, ledger(-max, 0, 0, max)).await;
    app.commit(&id, "c", 1)
        .await
        .refused(409, "OVERDRAFT_LIMIT_EXCEEDED");
}

/// Settings of request, inner ledger, outer ledger, tenant; empty where unset.
#[tokio::test]
async fn the_overage_policy_is_that_of_the_time_of_the_reserve() {
    const AIA: &str = "ALLOW_IF_AVAILABLE";
    const AWO: &str = "ALLOW_WITH_OVERDRAFT";
    let app = TestApp::spawn().await;
    let rows = [
        ("", "", "", "", 340),
        ("", "", "", AWO, 400),
        ("", "", "", "REJECT", 0),
        ("", "", "REJECT", AWO, 400),
        ("", AWO, "REJECT", "REJECT", 400),
        ("", AIA, AWO, AWO, 340),
        (AWO, "REJECT", "REJECT", "REJECT", 400),
        ("REJECT", AWO, AWO, AWO, 0),
    ];
    let named = "commit_overage_policy";
    for (row, (request, inner, outer, tenant, charged)) in rows.into_iter().enumerate() {
        let root = format!("workspace:row{row}");
        let leaf = format!("{root}/agent:a");
        for (scope, policy) in [(&root, outer), (&leaf, inner)] {
            app.budget(scope, 340, 100).await;
            if !policy.is_empty() {
                app.set_ledger(scope, &[(named, policy)]).await;
            }
        }
        let default = if tenant.is_empty() { AIA } else { tenant };
        app.set_tenant(&[("default_commit_overage_policy", default)])
            .await;
        let more = match request {
            "" => json!({}),
            policy => json!({"overage_policy": policy}),
        };
        let id = app.held(&leaf, 300, more).await;
        app.set_tenant(&[("default_commit_overage_policy", "REJECT")])
            .await;
        app.set_ledger(&leaf, &[(named, AIA)]).await;
        let response = app.commit(&id, "c", 400).await;
        match charged {
            0 => assert_eq!(response.error(), (409, "BUDGET_EXCEEDED"), "row {row}"),
            _ => assert_eq!(
                response.at("/charged"),
                &tokens(charged),
                "row {row}: {response:?}"
            ),
        }
    }
}
