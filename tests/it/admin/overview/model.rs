//! The overview after random histories: its counts match the records.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, KEYS, TENANTS};
use crate::admin::overview::counts::check;
use crate::admin::webhooks::subscriptions::{HOOKS, URL, hook};
use crate::harness::app::TestApp;
use crate::harness::receiver::public_names;
use crate::harness::response::Response;

/// A seeded generator of random numbers.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// One random operation; whether it is accepted does not matter.
async fn anything(
    app: &TestApp,
    random: &mut SeededRandom,
    keys: &[String],
    hooks: &mut Vec<String>,
) {
    let tenants = ["tin", "zinc", "lead", "iron"];
    let number = random.below(tenants.len());
    let tenant = tenants[number];
    let scope = [
        format!("tenant:{tenant}"),
        format!("tenant:{tenant}/agent:x"),
    ][random.below(2)]
    .clone();
    let unit = ["TOKENS", "CREDITS"][random.below(4) / 3];
    let amount = |value: usize| json!({"unit": unit, "amount": value});
    let target = format!("scope={scope}&unit={unit}");
    let hook_path = format!(
        "{HOOKS}/{}",
        hooks
            .get(random.below(hooks.len().max(1)))
            .cloned()
            .unwrap_or_default()
    );
    let response = match random.below(15) {
        0 | 1 => {
            let body = json!({"tenant_id": tenant, "scope": scope, "unit": unit, "allocated": amount(random.below(50)),
                "overdraft_limit": amount(random.below(3) * 20), "commit_overage_policy": "ALLOW_WITH_OVERDRAFT"});
            app.post_as_admin(BUDGETS, body).await
        }
        2 => {
            app.post_as_admin(&format!("{BUDGETS}/freeze?{target}"), json!({}))
                .await
        }
        3 => {
            app.post_as_admin(&format!("{BUDGETS}/unfreeze?{target}"), json!({}))
                .await
        }
        4 | 5 => {
            let operation = ["CREDIT", "REPAY_DEBT", "RESET"][random.below(3)];
            let body = json!({"operation": operation, "amount": amount(random.below(30))});
            app.post_as_admin(&format!("{BUDGETS}/fund?tenant_id={tenant}&{target}"), body)
                .await
        }
        6 => {
            let body = json!({"overdraft_limit": amount(random.below(30))});
            app.as_admin(Method::PATCH, &format!("{BUDGETS}?{target}"), &body)
                .await
        }
        7 => {
            let status = match random.below(12) {
                0 => "CLOSED",
                odd if odd % 2 == 1 => "SUSPENDED",
                _ => "ACTIVE",
            };
            app.as_admin(
                Method::PATCH,
                &format!("{TENANTS}/{tenant}"),
                &json!({"status": status}),
            )
            .await
        }
        8 => {
            let made = app
                .post_as_admin(&format!("{HOOKS}?tenant_id={tenant}"), hook(URL))
                .await;
            hooks.extend(
                made.at("/subscription/subscription_id")
                    .as_str()
                    .map(str::to_owned),
            );
            made
        }
        9 => {
            let status = ["PAUSED", "ACTIVE"][random.below(2)];
            app.as_admin(Method::PATCH, &hook_path, &json!({"status": status}))
                .await
        }
        10 => app.as_admin(Method::DELETE, &hook_path, &json!({})).await,
        _ => {
            let actual = amount(random.below(40));
            spend(app, random, &keys[number], tenant, &scope, actual).await
        }
    };
    assert!(response.status < 500, "{response:?}");
}

/// Charges at once, or reserves and then commits more.
async fn spend(
    app: &TestApp,
    random: &mut SeededRandom,
    key: &str,
    tenant: &str,
    scope: &str,
    amount: Value,
) -> Response {
    let mut subject = json!({"tenant": tenant});
    if scope.contains("agent") {
        subject["agent"] = json!("x");
    }
    let action = json!({"kind": "llm", "name": "m"});
    let policy = ["ALLOW_WITH_OVERDRAFT", "ALLOW_IF_AVAILABLE"][random.below(2)];
    let name = format!("k{}", random.0);
    if random.below(2) == 0 {
        let body = json!({"idempotency_key": name, "subject": subject, "action": action, "actual": amount,
            "overage_policy": policy});
        return app.post_with(key, "/v1/events", &body).await;
    }
    let estimate = json!({"unit": amount["unit"], "amount": 1});
    let body = json!({"idempotency_key": name, "subject": subject, "action": action, "estimate": estimate,
        "overage_policy": policy});
    let held = app.post_with(key, "/v1/reservations", &body).await;
    let Some(id) = held.at("/reservation_id").as_str() else {
        return held;
    };
    let path = format!("/v1/reservations/{id}/commit");
    app.post_with(
        key,
        &path,
        &json!({"idempotency_key": name, "actual": amount}),
    )
    .await
}

#[tokio::test]
async fn the_overview_matches_the_records_after_random_changes() {
    let (mut owed, mut over) = (false, false);
    for seed in [1, 2, 3] {
        let app = TestApp::spawn_reaching(public_names(), &[]).await;
        let (mut random, mut keys, mut hooks) = (SeededRandom(seed), Vec::new(), Vec::new());
        for tenant in ["tin", "zinc", "lead", "iron"] {
            app.post_as_admin(TENANTS, json!({"tenant_id": tenant, "name": tenant}))
                .await;
            let key = json!({"tenant_id": tenant, "name": "k"});
            keys.push(
                app.post_as_admin(KEYS, key)
                    .await
                    .text("/key_secret")
                    .to_owned(),
            );
        }
        for step in 0..240 {
            anything(&app, &mut random, &keys, &mut hooks).await;
            if step % 40 == 39 {
                let overview = check(&app, &format!("at step {step} of seed {seed}")).await;
                owed |= overview["budget_counts"]["with_debt"] != 0;
                over |= overview["budget_counts"]["over_limit"] != 0;
            }
        }
    }
    assert!(owed && over, "the histories have both");
}
