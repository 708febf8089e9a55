//! Policies that change while requests create budgets by their templates.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::templates::{AGENTS, ROOT, is_right, template};
use crate::harness::admin_calls::POLICIES;
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::tokens;

/// Each budget is created by the template that the log of events shows in force at that place, even if the policy changes between judging and creating.
#[tokio::test]
async fn a_policy_that_changes_meanwhile_creates_nothing_by_its_former_template() {
    let app = Arc::new(TestApp::spawn().await);
    app.budget(ROOT, 1_000_000, 0).await;
    let policy_id = template(&app, AGENTS, json!({"allocated": tokens(1_000)}), json!({})).await;
    let mut clients = JoinSet::new();
    for client in 0..8 {
        let app = app.clone();
        clients.spawn(async move {
            for number in 0..20 {
                let agent = format!("tenant:acme/agent:a{client}-{number}");
                app.create(&agent, &agent, 1, json!({})).await.expect(200);
            }
        });
    }
    let path = format!("{POLICIES}/{policy_id}");
    let mut changes = 0;
    while !clients.is_empty() {
        changes += 1;
        let terms = json!([{"unit": "TOKENS", "allocated": tokens(1_000 + changes)}]);
        let terms = json!({"budget_templates": terms});
        app.patch_as_admin(&path, &terms).await.expect(200);
        // Long enough to create a budget, sometimes: a request gives up after a number of changes.
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..20))).await;
        while let Some(ended) = clients.try_join_next() {
            ended.expect("each reserve is granted");
        }
    }
    let (mut now, mut made, mut seen) = (1_000, 0, BTreeSet::new());
    for event in app.events().await {
        match event.get("type") {
            "policy.updated" => now += 1,
            "budget.created" => {
                let key = app.ledger_key(0, event.get("scope"));
                let allocated: i64 = app.run(&["HGET", &key, "allocated"]).await;
                assert_eq!(allocated, now);
                made += 1;
                seen.insert(now);
            }
            _ => {}
        }
    }
    assert_eq!((now, made), (1_000 + changes, 160));
    assert!(seen.len() > 1, "policies change between creations");
    is_right(&app).await;
}
