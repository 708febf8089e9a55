//! How many records of a kind an owner may have.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, KEYS, umbra_on};
use crate::admin::webhooks::subscriptions::{HOOKS, OWN, URL, made, patch};
use crate::harness::app::TestApp;
use crate::harness::bulk_calls::{WEBHOOKS, words};
use crate::harness::receiver::public_names;
use crate::harness::response::Response;

const POLICIES: &str = "/v1/admin/policies";
const OF_UMBRA: &str = "/v1/admin/webhooks?tenant_id=umbra";

async fn app(settings: &[&str]) -> TestApp {
    umbra_on(TestApp::spawn_reaching(public_names(), settings).await).await
}

fn watching(shares: &[f64]) -> Value {
    json!({"url": URL, "event_types": ["budget.threshold_crossed"], "thresholds": {"budget_utilization": shares}})
}

/// Asserts that a request was refused, with both numbers and the setting.
fn assert_too_many(response: &Response, setting: &str, limit: i64, present: i64) {
    assert_eq!(response.error(), (400, "LIMIT_EXCEEDED"), "{response:?}");
    let numbers = json!({"limit": limit, "present": present});
    assert_eq!(*response.at("/details"), numbers);
    assert!(response.text("/message").contains(setting), "{response:?}");
}

#[tokio::test]
async fn a_tenant_at_its_limit_of_policies_can_still_update_them() {
    let app = app(&["--policies-per-tenant", "2"]).await;
    let policy =
        |name: &str| json!({"tenant_id": "umbra", "name": name, "scope_pattern": "tenant:umbra/*"});
    let first = app.post_as_admin(POLICIES, policy("a")).await.expect(201);
    app.post_as_admin(POLICIES, policy("b")).await.expect(201);
    let refused = app.post_as_admin(POLICIES, policy("c")).await;
    assert_too_many(&refused, "BUDGET_POLICIES_PER_TENANT", 2, 3);
    let path = format!("{POLICIES}/{}", first.text("/policy_id"));
    app.patch_as_admin(&path, json!({"name": "c"}))
        .await
        .expect(200);
    let text = app.telemetry.render().expect("metrics");
    let line = "budget_limit_refusals_total{limit=\"BUDGET_POLICIES_PER_TENANT\"} 1\n";
    assert!(text.contains(line), "{text}");
}

#[tokio::test]
async fn a_tenant_has_no_more_budgets_than_its_limit() {
    let app = app(&["--budgets-per-tenant", "2"]).await;
    let budget = |scope: &str| {
        let allocated = json!({"unit": "TOKENS", "amount": 10});
        json!({"tenant_id": "umbra", "scope": scope, "unit": "TOKENS", "allocated": allocated})
    };
    let create = async |scope: &str| app.post_as_admin(BUDGETS, budget(scope)).await;
    // The fixture has made one.
    create("tenant:umbra/app:a").await.expect(201);
    let refused = create("tenant:umbra/app:b").await;
    assert_too_many(&refused, "BUDGET_BUDGETS_PER_TENANT", 2, 3);
    let again = create("tenant:umbra/app:a").await;
    again.refused(409, "DUPLICATE_RESOURCE");
    let path = format!("{BUDGETS}?scope=tenant:umbra/app:a&unit=TOKENS");
    let metadata = json!({"metadata": {"a": 1}});
    app.patch_as_admin(&path, metadata).await.expect(200);
}

#[tokio::test]
async fn a_tenant_has_no_more_api_keys_than_the_limit() {
    let app = app(&["--api-keys", "2"]).await;
    let create = async |name: &str| {
        let body = json!({"tenant_id": "umbra", "name": name});
        app.post_as_admin(KEYS, body).await
    };
    let mut made = 0;
    let refused = loop {
        let response = create(&format!("key{made}")).await;
        if response.status != 201 {
            break response;
        }
        made += 1;
        assert!(made <= 2);
    };
    assert_too_many(&refused, "api_keys_per_tenant", 2, 3);
}

#[tokio::test]
async fn an_owner_has_no_more_webhooks_than_its_limit() {
    let app = app(&["--webhooks-per-owner", "2"]).await;
    made(&app, watching(&[0.5])).await;
    let second = made(&app, watching(&[0.5])).await;
    let refused = app.post_as_admin(OF_UMBRA, watching(&[0.5])).await;
    assert_too_many(&refused, "BUDGET_WEBHOOKS_PER_OWNER", 2, 3);
    // The operator is another owner.
    let operators = app.post_as_admin(HOOKS, watching(&[0.5])).await;
    assert_eq!(operators.status, 201, "{operators:?}");
    let path = format!("{HOOKS}/{second}");
    let deleted = app.as_admin(Method::DELETE, &path, &json!({})).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    made(&app, watching(&[0.5])).await;
}

#[tokio::test]
async fn the_active_webhooks_of_an_owner_watch_no_more_thresholds_than_its_limit() {
    const SETTING: &str = "thresholds_per_owner";
    let app = app(&["--thresholds", "3"]).await;
    let first = made(&app, watching(&[0.1, 0.2])).await;
    let second = made(&app, watching(&[0.2, 0.3])).await;
    let refused = app
        .post_as_admin(OF_UMBRA, watching(&[0.3, 0.4, 0.5]))
        .await;
    assert_too_many(&refused, SETTING, 3, 5);
    let more = json!({"thresholds": {"budget_utilization": [0.3, 0.6]}});
    let changed = patch(&app, &first, more).await;
    assert_eq!(changed.status, 200, "0.2, 0.3 and 0.6: {changed:?}");
    let more = json!({"thresholds": {"budget_utilization": [0.3, 0.6, 0.7]}});
    assert_too_many(&patch(&app, &first, more).await, SETTING, 3, 4);

    // A paused webhook watches nothing, and is resumed only within the limit, alone or by a bulk action.
    patch(&app, &second, json!({"status": "PAUSED"})).await;
    let third = made(&app, watching(&[0.8])).await;
    let resumed = patch(&app, &second, json!({"status": "ACTIVE"})).await;
    assert_too_many(&resumed, SETTING, 3, 4);
    let resume = json!({"filter": {"tenant_id": "umbra", "status": "PAUSED"}, "action": "RESUME", "idempotency_key": "r"});
    let response = app.post_as_admin(WEBHOOKS, resume).await;
    let failed = (second, "LIMIT_EXCEEDED".to_owned());
    assert_eq!(words(&response, "failed"), [failed]);

    // Under a lower limit, existing thresholds stay, and can be reduced.
    let narrow = app.replica(&["--thresholds", "1"]).await;
    let fewer = json!({"thresholds": {"budget_utilization": [0.6]}});
    assert_eq!(patch(&narrow, &first, fewer).await.status, 200);
    let other = json!({"thresholds": {"budget_utilization": [0.1, 0.8]}});
    assert_too_many(&patch(&narrow, &third, other).await, SETTING, 1, 3);
}

#[tokio::test]
async fn the_directory_holds_only_webhooks_that_exist() {
    let app = app(&["--webhooks-per-owner", "1"]).await;
    let key = crate::admin::webhooks::subscriptions::key(&app).await;
    let create = async |idempotency_key: &str, body: Value| {
        let request = app.request(Method::POST, OWN);
        let request = request
            .header("X-Service-API-Key", &key)
            .header("X-Idempotency-Key", idempotency_key);
        app.send(request.json(&body)).await
    };
    let first = create("k", watching(&[0.5])).await.expect(201);
    let replayed = create("k", watching(&[0.5])).await.expect(201);
    let first_id = first.text("/subscription/subscription_id");
    assert_eq!(replayed.text("/subscription/subscription_id"), first_id);
    create("k", watching(&[0.6]))
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    let refused = create("other", watching(&[0.5])).await;
    assert_too_many(&refused, "BUDGET_WEBHOOKS_PER_OWNER", 1, 2);
    let suspend = json!({"status": "SUSPENDED"});
    app.patch_as_admin("/v1/admin/tenants/umbra", suspend)
        .await
        .expect(200);
    create("suspended", watching(&[0.5])).await;

    // Of several at once, one is made.
    let active = json!({"status": "ACTIVE"});
    app.patch_as_admin("/v1/admin/tenants/umbra", active)
        .await
        .expect(200);
    let path = format!("{HOOKS}/{first_id}");
    app.as_admin(Method::DELETE, &path, &json!({})).await;
    let (a, b, c, d) = tokio::join!(
        create("x", watching(&[0.5])),
        create("y", watching(&[0.5])),
        create("x", watching(&[0.5])),
        create("y", watching(&[0.5])),
    );
    let created = [a, b, c, d].into_iter().filter(|sent| sent.status == 201);
    let id = |created: Response| created.text("/subscription/subscription_id").to_owned();
    let mut made: Vec<String> = created.map(id).collect();
    made.dedup();
    assert_eq!(made.len(), 1, "{made:?}");
    let directory = app.store.keys().webhook_directory();
    let listed: Vec<String> = app.run(&["ZRANGE", &directory, "0", "-1"]).await;
    assert_eq!(listed, made);
}
