//! Permissions on webhook subscriptions, and their audit entries.

use std::net::IpAddr;

use budget_authority::domain::ids::Partition;
use budget_authority::domain::record::Record;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::umbra_on;
use crate::admin::webhooks::subscriptions::{HOOKS, OWN, URL, hook, hooked, key, made, patch};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::receiver::egress;

#[tokio::test]
async fn another_tenants_subscription_is_not_found() {
    let app = hooked().await;
    let key = key(&app).await;
    let foreign = app
        .post_as_admin(&format!("{HOOKS}?tenant_id=acme"), hook(URL))
        .await;
    let foreign = match foreign.status {
        201 => foreign.text("/subscription/subscription_id").to_owned(),
        _ => {
            let tenant = json!({"tenant_id": "acme-two", "name": "A"});
            app.post_as_admin("/v1/admin/tenants", tenant)
                .await
                .expect(201);
            let response = app
                .post_as_admin(&format!("{HOOKS}?tenant_id=acme-two"), hook(URL))
                .await;
            response.text("/subscription/subscription_id").to_owned()
        }
    };
    let of_operator = app.post_as_admin(HOOKS, hook(URL)).await;
    let of_operator = of_operator.text("/subscription/subscription_id").to_owned();
    let unknown = "whsub_05f_0123456789abcdef01234567".to_owned();
    for id in [&foreign, &of_operator, &unknown, &"nonsense".to_owned()] {
        for (method, rest) in [
            (Method::GET, ""),
            (Method::PATCH, ""),
            (Method::DELETE, ""),
            (Method::POST, "/test"),
            (Method::POST, "/replay"),
            (Method::GET, "/deliveries"),
        ] {
            let response = app
                .by_key(
                    &key,
                    method.clone(),
                    &format!("{OWN}/{id}{rest}"),
                    &json!({}),
                )
                .await;
            assert_eq!(
                response.error(),
                (404, "WEBHOOK_NOT_FOUND"),
                "{method} {id}{rest}: {response:?}"
            );
        }
    }
    let page = app.get_with(&key, OWN).await;
    assert_eq!(page.at("/subscriptions"), &json!([]));
    // The operator reaches all of them on both planes.
    for id in [&foreign, &of_operator] {
        for plane in [HOOKS, OWN] {
            app.get_as_admin(&format!("{plane}/{id}")).await.expect(200);
        }
    }
}

#[tokio::test]
async fn each_operation_needs_its_permission_and_one_is_for_tenants_only() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let (_, reader) = crate::admin::http::key(&app, &["webhooks:read"]).await;
    let (_, writer) = crate::admin::http::key(&app, &["webhooks:write"]).await;
    let (_, other) = crate::admin::http::key(&app, &["budgets:read", "budgets:write"]).await;
    let one = format!("{OWN}/{id}");
    for (method, path, needed) in [
        (Method::GET, OWN.to_owned(), &reader),
        (Method::GET, one.clone(), &reader),
        (Method::GET, format!("{one}/deliveries"), &reader),
        (Method::POST, OWN.to_owned(), &writer),
        (Method::PATCH, one.clone(), &writer),
        (Method::POST, format!("{one}/test"), &writer),
        (Method::POST, format!("{one}/replay"), &writer),
        (Method::DELETE, one.clone(), &writer),
    ] {
        for key in [&reader, &writer, &other] {
            let body = if path == OWN { hook(URL) } else { json!({}) };
            let response = app.by_key(key, method.clone(), &path, &body).await;
            if key == needed {
                assert!(response.is_success(), "{method} {path}: {response:?}");
            } else {
                assert_eq!(
                    response.error(),
                    (403, "INSUFFICIENT_PERMISSIONS"),
                    "{method} {path}: {response:?}"
                );
            }
        }
        let nobody = app.send(app.request(method.clone(), &path)).await;
        assert_eq!(nobody.error(), (401, "UNAUTHORIZED"), "{method} {path}");
    }
    let by_both = [
        ("X-Admin-API-Key", ADMIN_KEY),
        ("X-Service-API-Key", writer.as_str()),
    ];
    let response = app.call(Method::POST, OWN, &by_both, &hook(URL)).await;
    assert_eq!(response.error(), (400, "INVALID_REQUEST"));
    app.post_as_admin(OWN, hook(URL))
        .await
        .refused(401, "UNAUTHORIZED");
    let wrong = [
        ("X-Admin-API-Key", "wrong"),
        ("X-Service-API-Key", reader.as_str()),
    ];
    let response = app.call(Method::GET, OWN, &wrong, &Value::Null).await;
    assert_eq!(
        response.error(),
        (400, "INVALID_REQUEST"),
        "no fallback: {response:?}"
    );
    for path in [
        HOOKS.to_owned(),
        format!("{HOOKS}/{id}"),
        "/v1/admin/config/webhook-security".to_owned(),
    ] {
        let response = app.get_with(&reader, &path).await;
        assert_eq!(
            response.error(),
            (401, "UNAUTHORIZED"),
            "{path}: {response:?}"
        );
    }
}

#[tokio::test]
async fn a_bad_key_learns_nothing_and_resolves_nothing() {
    let (way_out, resolved) = egress(|_| vec![IpAddr::from([93, 184, 216, 34])]);
    let app = umbra_on(TestApp::spawn_reaching(way_out, &[]).await).await;
    let good = key(&app).await;
    let wrong = format!("{}{}", &good[..good.len() - 4], "AAAA");
    let hidden = json!({"url": URL, "event_types": ["policy.created"]});
    for body in [hook(URL), hook("http://x"), hidden, json!({})] {
        let response = app.by_key(&wrong, Method::POST, OWN, &body).await;
        assert_eq!(
            response.error(),
            (401, "UNAUTHORIZED"),
            "{body}: {response:?}"
        );
    }
    for (method, rest) in [
        (Method::PATCH, ""),
        (Method::POST, "/test"),
        (Method::GET, "/deliveries?limit=x"),
    ] {
        let response = app
            .by_key(
                &wrong,
                method,
                &format!("{OWN}/nonsense{rest}"),
                &json!({"x": 1}),
            )
            .await;
        assert_eq!(
            response.error(),
            (401, "UNAUTHORIZED"),
            "{rest}: {response:?}"
        );
    }
    assert!(resolved.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn a_closed_tenants_subscriptions_are_read_only() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let fixture = app.admin_fixture();
    fixture.set_status("umbra", "CLOSED");
    app.post_as_admin(&format!("{HOOKS}?tenant_id=umbra"), hook("http://x"))
        .await
        .refused(409, "TENANT_CLOSED");
    for (method, rest) in [
        (Method::PATCH, ""),
        (Method::DELETE, ""),
        (Method::POST, "/test"),
        (Method::POST, "/replay"),
    ] {
        let response = app
            .as_admin(method.clone(), &format!("{HOOKS}/{id}{rest}"), &json!({}))
            .await;
        assert_eq!(
            response.error(),
            (409, "TENANT_CLOSED"),
            "{method} {rest}: {response:?}"
        );
    }
    for rest in ["", "/deliveries"] {
        app.get_as_admin(&format!("{HOOKS}/{id}{rest}"))
            .await
            .expect(200);
    }
}

#[tokio::test]
async fn a_suspended_tenants_subscriptions_are_changed_by_the_operator_only() {
    let app = hooked().await;
    let key = key(&app).await;
    let id = made(&app, hook(URL)).await;
    app.admin_fixture().set_status("umbra", "SUSPENDED");
    for (method, rest) in [
        (Method::PATCH, ""),
        (Method::DELETE, ""),
        (Method::POST, "/test"),
    ] {
        let response = app
            .by_key(&key, method, &format!("{OWN}/{id}{rest}"), &json!({}))
            .await;
        assert_eq!(response.error(), (403, "FORBIDDEN"), "{rest}: {response:?}");
    }
    app.by_key(&key, Method::POST, OWN, &hook(URL))
        .await
        .refused(403, "FORBIDDEN");
    app.get_with(&key, &format!("{OWN}/{id}")).await.expect(200);
    patch(&app, &id, json!({"name": "n"})).await.expect(200);
    app.post_as_admin(&format!("{HOOKS}?tenant_id=umbra"), hook(URL))
        .await
        .expect(201);
}

#[tokio::test]
async fn each_operation_is_audited_once_under_its_owner() {
    let app = hooked().await;
    let key = key(&app).await;
    let own = app.by_key(&key, Method::POST, OWN, &hook(URL)).await;
    let id = own.text("/subscription/subscription_id").to_owned();
    app.by_key(
        &key,
        Method::PATCH,
        &format!("{OWN}/{id}"),
        &json!({"name": "n"}),
    )
    .await;
    app.as_admin(Method::PATCH, &format!("{OWN}/{id}"), &json!({"name": "m"}))
        .await;
    patch(
        &app,
        &id,
        json!({"url": "https://other.example/", "event_types": ["tenant.closed"]}),
    )
    .await;
    patch(&app, &id, json!({"url": "http://x"})).await;
    app.by_key(&key, Method::DELETE, &format!("{OWN}/{id}"), &json!({}))
        .await;
    let system = app.post_as_admin(HOOKS, hook(URL)).await;
    let fixture = app.admin_fixture();
    let line = |entry: &Record| {
        let get = |name: &str| entry.get(name).unwrap_or("-").to_owned();
        [
            get("operation"),
            get("status"),
            get("metadata.actor_type"),
            get("error_code"),
        ]
        .join(" ")
    };
    let about = |entry: &Record| {
        entry.get("resource_type") == Some("webhook")
            || entry
                .get("operation")
                .is_some_and(|operation| operation.contains("/webhooks"))
    };
    let lines: Vec<String> = fixture
        .tenant_audit("umbra")
        .iter()
        .filter(|e| about(e))
        .map(line)
        .collect();
    assert_eq!(
        lines,
        [
            "createTenantWebhook 201 api_key -",
            "updateTenantWebhook 200 api_key -",
            "updateTenantWebhook 200 admin_on_behalf_of -",
            "updateWebhookSubscription 200 - -",
            &format!("PATCH:{HOOKS}/{id} 400 - WEBHOOK_URL_INVALID"),
            "deleteTenantWebhook 204 api_key -",
        ]
    );
    let recorded = fixture.audit(Partition::FIRST, "__system__");
    assert_eq!(recorded.len(), 1, "{system:?}");
    assert_eq!(line(&recorded[0]), "createWebhookSubscription 201 - -");
}
