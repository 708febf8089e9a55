//! Webhook subscriptions: what they may select, who sees them, which addresses they may have.

use reqwest::Method;
use serde_json::{Value, json};

use super::{INVALID, fund};
use crate::admin::http::TENANTS;
use crate::admin::webhooks::subscriptions::{HOOKS, OWN, URL, hook, hooked, key, made, patch};

const NO_WEBHOOK: (u16, &str) = (404, "WEBHOOK_NOT_FOUND");
const BAD_URL: (u16, &str) = (400, "WEBHOOK_URL_INVALID");

#[tokio::test]
async fn rule_57_only_operators_subscribe_to_operator_events() {
    let app = hooked().await;
    for selected in [
        json!({"event_types": ["api_key.created"]}),
        json!({"event_types": ["budget.funded"], "event_categories": ["system"]}),
        json!({"event_types": ["budget.funded", "policy.created"]}),
        json!({"event_types": ["webhook.disabled"]}),
    ] {
        let mut body = selected.clone();
        body["url"] = json!(URL);
        let of_tenant = app
            .post_as_admin(&format!("{HOOKS}?tenant_id=umbra"), body.clone())
            .await;
        assert_eq!(of_tenant.error(), INVALID, "{selected}: {of_tenant:?}");
        for owner in ["", "?tenant_id=system", "?tenant_id=__system__"] {
            let response = app
                .post_as_admin(&format!("{HOOKS}{owner}"), body.clone())
                .await;
            assert_eq!(response.status, 201, "{selected}: {response:?}");
            assert_eq!(response.text("/subscription/tenant_id"), "__system__");
        }
    }
}

#[tokio::test]
async fn rule_58_a_subscription_always_selects_something() {
    let app = hooked().await;
    let mut both = hook(URL);
    both["event_categories"] = json!(["reservation"]);
    let with_categories = made(&app, both).await;
    let without = made(&app, hook(URL)).await;
    patch(&app, &with_categories, json!({"event_types": []}))
        .await
        .expect(200);
    assert_eq!(
        patch(&app, &without, json!({"event_types": []}))
            .await
            .error(),
        INVALID
    );
    let last = patch(&app, &with_categories, json!({"event_categories": null})).await;
    assert_eq!(last.error(), INVALID);
    let none = json!({"url": URL, "event_types": [], "event_categories": ["budget"]});
    let response = app
        .post_as_admin(&format!("{HOOKS}?tenant_id=umbra"), none)
        .await;
    assert_eq!(response.error(), INVALID, "{response:?}");
}

#[tokio::test]
async fn rule_59_another_tenants_subscription_is_not_found() {
    let app = hooked().await;
    let key = key(&app).await;
    app.post_as_admin(TENANTS, json!({"tenant_id": "penumbra", "name": "P"}))
        .await;
    let theirs = app
        .post_as_admin(&format!("{HOOKS}?tenant_id=penumbra"), hook(URL))
        .await;
    let theirs = theirs.text("/subscription/subscription_id").to_owned();
    for (method, rest) in [
        (Method::GET, ""),
        (Method::PATCH, ""),
        (Method::DELETE, ""),
        (Method::POST, "/test"),
        (Method::GET, "/deliveries"),
    ] {
        let path = format!("{OWN}/{theirs}{rest}");
        let response = app.by_key(&key, method.clone(), &path, &json!({})).await;
        assert_eq!(
            response.error(),
            NO_WEBHOOK,
            "{method} {rest}: {response:?}"
        );
    }
    app.get_as_admin(&format!("{HOOKS}/{theirs}"))
        .await
        .expect(200);
}

#[tokio::test]
async fn rule_60_secrets_are_only_in_the_first_response() {
    let app = hooked().await;
    let mut body = hook(URL);
    body["headers"] = json!({"Authorization": "Bearer t0k3n"});
    body["signing_secret"] = json!("a secret of sixteen characters or more");
    let made = app
        .post_as_admin(&format!("{HOOKS}?tenant_id=umbra"), body)
        .await;
    assert_eq!(
        made.text("/signing_secret"),
        "a secret of sixteen characters or more"
    );
    let id = made.text("/subscription/subscription_id").to_owned();
    let key = key(&app).await;
    let one = format!("{OWN}/{id}");
    for response in [
        app.get_as_admin(&format!("{HOOKS}/{id}")).await,
        app.get_as_admin(HOOKS).await,
        patch(
            &app,
            &id,
            json!({"name": "n", "signing_secret": "another secret of that length"}),
        )
        .await,
        app.get_with(&key, &one).await,
        app.get_with(&key, OWN).await,
        app.by_key(&key, Method::PATCH, &one, &json!({"name": "m"}))
            .await,
        patch(&app, &id, json!({})).await,
    ] {
        assert_eq!(response.status, 200, "{response:?}");
        let text = response.body.to_string();
        assert!(text.contains("\"Authorization\":\"********\""), "{text}");
        assert!(
            !text.contains("t0k3n") && !text.contains("secret"),
            "{text}"
        );
    }
    assert!(!made.at("/subscription").to_string().contains("t0k3n"));
}

#[tokio::test]
async fn rule_65_a_replay_takes_its_whole_window_or_nothing_and_is_refused_while_paused() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    for _ in 0..101 {
        fund(&app, "CREDIT", 1, json!({})).await.expect(200);
    }
    let replay = async |body: Value| {
        app.as_admin(Method::POST, &format!("{HOOKS}/{id}/replay"), &body)
            .await
    };
    assert_eq!(
        replay(json!({})).await.error(),
        INVALID,
        "the default is a hundred"
    );
    let all = replay(json!({"max_events": 101})).await;
    assert_eq!((all.status, all.at("/events_queued")), (202, &json!(101)));
    // Two at once have a test of their own, a_subscription_has_one_replay_at_a_time: here one is too fast.
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    let paused = replay(json!({"max_events": 101})).await;
    assert_eq!(
        (paused.status, paused.at("/events_queued")),
        (202, &json!(0))
    );
}

#[tokio::test]
async fn rule_66_an_address_is_public_and_https_unless_the_operator_allows_others() {
    let app = hooked().await;
    let make = async |url: &str| {
        app.post_as_admin(&format!("{HOOKS}?tenant_id=umbra"), hook(url))
            .await
    };
    for url in [
        "https://127.0.0.1/in",
        "http://hooks.example/in",
        "https://10.0.0.7/in",
        "https://[::1]/in",
    ] {
        assert_eq!(make(url).await.error(), BAD_URL, "{url}");
    }
    let open = json!({"blocked_cidr_ranges": [], "allow_http": true});
    let security = "/v1/admin/config/webhook-security";
    app.as_admin(Method::PUT, security, &open).await.expect(200);
    for url in [
        "http://127.0.0.1:9/in",
        "http://hooks.example/in",
        "https://10.0.0.7/in",
    ] {
        assert_eq!(make(url).await.status, 201, "{url}");
    }
}

#[tokio::test]
async fn rule_67_an_empty_configuration_restores_the_defaults() {
    let app = hooked().await;
    let security = "/v1/admin/config/webhook-security";
    let first = app.get_as_admin(security).await;
    let other = json!({"allow_http": true, "blocked_cidr_ranges": [], "allowed_url_patterns": ["https://*.example/*"]});
    let changed = app.as_admin(Method::PUT, security, &other).await;
    assert_ne!(changed.at("/allow_http"), first.at("/allow_http"));
    app.as_admin(Method::PUT, security, &json!({}))
        .await
        .expect(200);
    let now = app.get_as_admin(security).await;
    for member in ["blocked_cidr_ranges", "allowed_url_patterns", "allow_http"] {
        assert_eq!(now.body.get(member), first.body.get(member), "{member}");
    }
}
