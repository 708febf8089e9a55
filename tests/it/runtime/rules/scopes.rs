//! Budgets and their scopes.

use reqwest::Method;
use serde_json::{Value, json};

use super::{INVALID, figures};
use crate::admin::http::{BUDGETS, TENANTS, key, umbra};
use crate::harness::runtime_calls::tokens;

/// The body of a create for `umbra`.
fn budget(scope: &str) -> Value {
    json!({"tenant_id": "umbra", "scope": scope, "unit": "TOKENS", "allocated": tokens(100)})
}

#[tokio::test]
async fn rule_20_a_tenant_is_named_by_its_key_and_by_an_operators_request() {
    let app = umbra().await;
    let (_, key) = key(&app, &["budgets:write"]).await;
    let named = budget("tenant:umbra/agent:a");
    let mut unnamed = named.clone();
    unnamed
        .as_object_mut()
        .expect("an object")
        .remove("tenant_id");
    let post_own = async |body: &Value| app.by_key(&key, Method::POST, BUDGETS, body).await;
    assert_eq!(post_own(&named).await.error(), INVALID);
    assert_eq!(
        app.post_as_admin(BUDGETS, unnamed.clone()).await.error(),
        INVALID
    );
    post_own(&unnamed).await.expect(201);
    app.post_as_admin(BUDGETS, budget("tenant:umbra/agent:b"))
        .await
        .expect(201);
}

#[tokio::test]
async fn rule_21_a_scope_has_its_kinds_in_order_without_empty_segments_or_wildcards() {
    let app = umbra().await;
    for scope in [
        "tenant:umbra/agent:a/workspace:w",
        "tenant:umbra//x",
        "tenant:umbra//agent:a",
        "tenant:umbra/agent:*",
        "tenant:umbra/*",
        "tenant:umbra/team:x",
        "tenant:umbra/",
        "/tenant:umbra",
        "tenant:umbra/agent:",
        "tenant:umbra/agent",
        "tenant:umbra/agent:a/agent:b",
        "agent:a",
        "umbra",
        "tenant:other",
    ] {
        let response = app.post_as_admin(BUDGETS, budget(scope)).await;
        assert_eq!(response.error(), INVALID, "{scope}: {response:?}");
    }
}

#[tokio::test]
async fn rule_22_kinds_are_lower_case_and_ids_are_lower_cased() {
    let app = umbra().await;
    let capital = app
        .post_as_admin(BUDGETS, budget("tenant:umbra/Agent:bob"))
        .await;
    assert_eq!(capital.error(), INVALID);
    let made = app
        .post_as_admin(BUDGETS, budget("tenant:umbra/agent:Bob"))
        .await;
    assert_eq!(made.text("/scope"), "tenant:umbra/agent:bob");
    for spelling in ["Bob", "bob", "BOB"] {
        let path = format!("{BUDGETS}/lookup?scope=tenant:umbra/agent:{spelling}&unit=TOKENS");
        assert_eq!(app.get_as_admin(&path).await.body, made.body, "{spelling}");
    }
}

#[tokio::test]
async fn rule_23_a_scope_has_one_ledger_of_each_unit() {
    let app = umbra().await;
    app.post_as_admin(BUDGETS, budget("tenant:umbra"))
        .await
        .refused(409, "DUPLICATE_RESOURCE");
    let mut other = budget("tenant:umbra");
    other["unit"] = json!("CREDITS");
    other["allocated"] = json!({"unit": "CREDITS", "amount": 5});
    app.post_as_admin(BUDGETS, other).await.expect(201);
}

#[tokio::test]
async fn rule_24_an_amount_in_another_unit_is_refused_before_an_existing_ledger() {
    let app = umbra().await;
    for member in ["allocated", "overdraft_limit"] {
        let mut wrong = budget("tenant:umbra");
        wrong[member] = json!({"unit": "CREDITS", "amount": 5});
        assert_eq!(
            app.post_as_admin(BUDGETS, wrong).await.error(),
            (400, "UNIT_MISMATCH"),
            "{member}"
        );
    }
}

#[tokio::test]
async fn rule_25_whether_another_tenant_has_a_ledger_is_not_revealed() {
    let app = umbra().await;
    app.post_as_admin(TENANTS, json!({"tenant_id": "penumbra", "name": "P"}))
        .await;
    let theirs = json!({"tenant_id": "penumbra", "scope": "tenant:penumbra", "unit": "TOKENS", "allocated": tokens(1)});
    app.post_as_admin(BUDGETS, theirs).await.expect(201);
    let (_, key) = key(&app, &["budgets:read"]).await;
    let look = async |scope: &str| {
        let mut response = app
            .get_with(&key, &format!("{BUDGETS}/lookup?scope={scope}&unit=TOKENS"))
            .await;
        for id in ["request_id", "trace_id"] {
            response.body.as_object_mut().expect("an object").remove(id);
        }
        (
            response.status,
            response.body.to_string().replace(scope, "…"),
        )
    };
    let there = look("tenant:penumbra").await;
    assert_eq!(
        (there.0, there.1.contains("FORBIDDEN")),
        (403, true),
        "{there:?}"
    );
    assert_eq!(look("tenant:penumbra/agent:a").await, there);
    assert_eq!(look("tenant:nobody").await, there);
    let own = app
        .get_with(
            &key,
            &format!("{BUDGETS}/lookup?scope=tenant:umbra&unit=TOKENS"),
        )
        .await;
    assert_eq!(figures(&own.body), [100, 100, 0, 0, 0]);
}
