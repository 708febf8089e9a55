//! Who may do what with webhook subscriptions, and what is booked of it.

use std::net::IpAddr;

use budget_authority::domain::ids::Partition;
use budget_authority::domain::record::Record;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{get, post, send, umbra_on};
use crate::admin::webhooks::subscriptions::{
    HOOKS, OWN, URL, by_admin, by_key, hook, hooked, key, made, patch,
};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::desk::Desk;
use crate::harness::receiver::egress;

#[tokio::test]
async fn another_tenants_subscription_is_as_if_it_were_not_there() {
    let app = hooked().await;
    let key = key(&app).await;
    let foreign = post(&app, &format!("{HOOKS}?tenant_id=acme"), hook(URL)).await;
    let foreign = match foreign.status.as_u16() {
        201 => foreign.text("/subscription/subscription_id").to_owned(),
        _ => {
            let tenant = json!({"tenant_id": "acme-two", "name": "A"});
            assert_eq!(post(&app, "/v1/admin/tenants", tenant).await.status, 201);
            let said = post(&app, &format!("{HOOKS}?tenant_id=acme-two"), hook(URL)).await;
            said.text("/subscription/subscription_id").to_owned()
        }
    };
    let of_operator = post(&app, HOOKS, hook(URL)).await;
    let of_operator = of_operator.text("/subscription/subscription_id").to_owned();
    let unknown = "whsub_05f_0123456789abcdef01234567".to_owned();
    for id in [&foreign, &of_operator, &unknown, &"nonsense".to_owned()] {
        for (method, rest) in [
            (Method::GET, ""),
            (Method::PATCH, ""),
            (Method::DELETE, ""),
            (Method::POST, "/test"),
            (Method::GET, "/deliveries"),
        ] {
            let said = by_key(
                &app,
                &key,
                method.clone(),
                &format!("{OWN}/{id}{rest}"),
                &json!({}),
            )
            .await;
            assert_eq!(
                said.error(),
                (404, "WEBHOOK_NOT_FOUND"),
                "{method} {id}{rest}: {said:?}"
            );
        }
    }
    let page = app.get_with(&key, OWN).await;
    assert_eq!(page.at("/subscriptions"), &json!([]));
    // The operator reaches all of them on both planes.
    for id in [&foreign, &of_operator] {
        for plane in [HOOKS, OWN] {
            assert_eq!(get(&app, &format!("{plane}/{id}")).await.status, 200);
        }
    }
}

#[tokio::test]
async fn a_key_needs_the_permission_and_only_one_operation_is_the_tenants_alone() {
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
        (Method::DELETE, one.clone(), &writer),
    ] {
        for key in [&reader, &writer, &other] {
            let body = if path == OWN { hook(URL) } else { json!({}) };
            let said = by_key(&app, key, method.clone(), &path, &body).await;
            if key == needed {
                assert!(said.status.is_success(), "{method} {path}: {said:?}");
            } else {
                assert_eq!(
                    said.error(),
                    (403, "INSUFFICIENT_PERMISSIONS"),
                    "{method} {path}: {said:?}"
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
    let said = send(&app, Method::POST, OWN, &by_both, &hook(URL)).await;
    assert_eq!(
        (said.status.as_u16(), said.at("/subscription/tenant_id")),
        (201, &json!("umbra"))
    );
    let by_admin = post(&app, OWN, hook(URL)).await;
    assert_eq!(by_admin.error(), (401, "UNAUTHORIZED"), "{by_admin:?}");
    let wrong = [
        ("X-Admin-API-Key", "wrong"),
        ("X-Service-API-Key", reader.as_str()),
    ];
    let said = send(&app, Method::GET, OWN, &wrong, &Value::Null).await;
    assert_eq!(said.error(), (401, "UNAUTHORIZED"), "no fallback: {said:?}");
    for path in [
        HOOKS.to_owned(),
        format!("{HOOKS}/{id}"),
        "/v1/admin/config/webhook-security".to_owned(),
    ] {
        let said = app.get_with(&reader, &path).await;
        assert_eq!(said.error(), (401, "UNAUTHORIZED"), "{path}: {said:?}");
    }
}

#[tokio::test]
async fn a_bad_key_learns_nothing_and_resolves_nothing() {
    let (way_out, asked) = egress(|_| vec![IpAddr::from([93, 184, 216, 34])]);
    let app = umbra_on(TestApp::spawn_reaching(way_out, &[]).await).await;
    let good = key(&app).await;
    let wrong = format!("{}{}", &good[..good.len() - 4], "AAAA");
    let hidden = json!({"url": URL, "event_types": ["policy.created"]});
    for body in [hook(URL), hook("http://x"), hidden, json!({})] {
        let said = by_key(&app, &wrong, Method::POST, OWN, &body).await;
        assert_eq!(said.error(), (401, "UNAUTHORIZED"), "{body}: {said:?}");
    }
    for (method, rest) in [
        (Method::PATCH, ""),
        (Method::POST, "/test"),
        (Method::GET, "/deliveries?limit=x"),
    ] {
        let said = by_key(
            &app,
            &wrong,
            method,
            &format!("{OWN}/nonsense{rest}"),
            &json!({"x": 1}),
        )
        .await;
        assert_eq!(said.error(), (401, "UNAUTHORIZED"), "{rest}: {said:?}");
    }
    assert!(asked.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn a_closed_tenants_subscriptions_are_only_read() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let desk = Desk::on(app.world.store.clone());
    desk.set_status("umbra", "CLOSED");
    let create = post(&app, &format!("{HOOKS}?tenant_id=umbra"), hook("http://x")).await;
    assert_eq!(create.error(), (409, "TENANT_CLOSED"), "{create:?}");
    for (method, rest) in [
        (Method::PATCH, ""),
        (Method::DELETE, ""),
        (Method::POST, "/test"),
        (Method::POST, "/replay"),
    ] {
        let said = by_admin(
            &app,
            method.clone(),
            &format!("{HOOKS}/{id}{rest}"),
            &json!({}),
        )
        .await;
        assert_eq!(
            said.error(),
            (409, "TENANT_CLOSED"),
            "{method} {rest}: {said:?}"
        );
    }
    for rest in ["", "/deliveries"] {
        assert_eq!(get(&app, &format!("{HOOKS}/{id}{rest}")).await.status, 200);
    }
}

#[tokio::test]
async fn a_suspended_tenants_keys_change_nothing_but_the_operator_does() {
    let app = hooked().await;
    let key = key(&app).await;
    let id = made(&app, hook(URL)).await;
    Desk::on(app.world.store.clone()).set_status("umbra", "SUSPENDED");
    for (method, rest) in [
        (Method::PATCH, ""),
        (Method::DELETE, ""),
        (Method::POST, "/test"),
    ] {
        let said = by_key(&app, &key, method, &format!("{OWN}/{id}{rest}"), &json!({})).await;
        assert_eq!(said.error(), (403, "FORBIDDEN"), "{rest}: {said:?}");
    }
    let own = by_key(&app, &key, Method::POST, OWN, &hook(URL)).await;
    assert_eq!(own.error(), (403, "FORBIDDEN"), "{own:?}");
    assert_eq!(app.get_with(&key, &format!("{OWN}/{id}")).await.status, 200);
    assert_eq!(patch(&app, &id, json!({"name": "n"})).await.status, 200);
    let made = post(&app, &format!("{HOOKS}?tenant_id=umbra"), hook(URL)).await;
    assert_eq!(made.status, 201, "{made:?}");
}

#[tokio::test]
async fn each_operation_is_booked_once_where_it_belongs() {
    let app = hooked().await;
    let key = key(&app).await;
    let own = by_key(&app, &key, Method::POST, OWN, &hook(URL)).await;
    let id = own.text("/subscription/subscription_id").to_owned();
    by_key(
        &app,
        &key,
        Method::PATCH,
        &format!("{OWN}/{id}"),
        &json!({"name": "n"}),
    )
    .await;
    by_admin(
        &app,
        Method::PATCH,
        &format!("{OWN}/{id}"),
        &json!({"name": "m"}),
    )
    .await;
    patch(
        &app,
        &id,
        json!({"url": "https://other.example/", "event_types": ["tenant.closed"]}),
    )
    .await;
    patch(&app, &id, json!({"url": "http://x"})).await;
    by_key(
        &app,
        &key,
        Method::DELETE,
        &format!("{OWN}/{id}"),
        &json!({}),
    )
    .await;
    let system = post(&app, HOOKS, hook(URL)).await;
    let desk = Desk::on(app.world.store.clone());
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
    let lines: Vec<String> = desk
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
    let booked = desk.audit(Partition::FIRST, "__system__");
    assert_eq!(booked.len(), 1, "{system:?}");
    assert_eq!(line(&booked[0]), "createWebhookSubscription 201 - -");
}
