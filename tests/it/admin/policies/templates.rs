//! Templates of budgets in policies: which are refused, and who may write them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::admin_calls::POLICIES;
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{tokens, with};

const AGENTS: &str = "tenant:acme/agent:*";

#[tokio::test]
async fn templates_that_cannot_work_are_refused() {
    let app = TestApp::spawn().await;
    let one = json!({"unit": "TOKENS", "allocated": tokens(1)});
    let policy = |more: Value| {
        with(
            json!({"tenant_id": "acme", "name": "p", "scope_pattern": AGENTS}),
            more,
        )
    };
    for (more, named) in [
        (
            json!({"scope_pattern": "tenant:acme/*", "budget_templates": [one]}),
            "budget_templates: needs",
        ),
        (
            json!({"budget_templates": [one, one]}),
            "budget_templates: [1] is the second for TOKENS",
        ),
        (
            json!({"budget_templates": [{"unit": "CREDITS", "allocated": tokens(1)}]}),
            "budget_templates[0].allocated: must count",
        ),
        (
            json!({"budget_templates": [{"unit": "TOKENS"}]}),
            "budget_templates[0].allocated",
        ),
    ] {
        let refused = app
            .post_as_admin(POLICIES, policy(more))
            .await
            .refused(400, "INVALID_REQUEST");
        assert!(refused.text("/message").contains(named), "{refused:?}");
    }
    let wide = policy(json!({"scope_pattern": "tenant:acme/*"}));
    let wide = app.post_as_admin(POLICIES, wide).await.expect(201);
    let path = format!("{POLICIES}/{}", wide.text("/policy_id"));
    let body = json!({"budget_templates": [one]});
    let refused = app
        .patch_as_admin(&path, &body)
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(
        refused.text("/message").contains("budget_templates: needs"),
        "{refused:?}"
    );
    app.patch_as_admin(&path, json!({"budget_templates": []}))
        .await
        .expect(200);
    // A key needs budgets:write as well.
    app.set_key(&[("permissions", " policies:write ")]).await;
    let mut body = policy(json!({"budget_templates": [one], "name": "q"}));
    body.as_object_mut().expect("an object").remove("tenant_id");
    let key = &app.keys[0];
    let refused = app.by_key(key, Method::POST, POLICIES, &body).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(
        refused.text("/message").contains("budgets:write"),
        "{refused:?}"
    );
    let refused = app
        .by_key(
            key,
            Method::PATCH,
            &path,
            &json!({"budget_templates": null}),
        )
        .await;
    assert_eq!(refused.status, 403, "{refused:?}");
    app.set_key(&[("permissions", " policies:write budgets:write ")])
        .await;
    app.by_key(key, Method::POST, POLICIES, &body)
        .await
        .expect(201);
}
