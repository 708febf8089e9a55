//! The admin plane on an address of its own: which address serves what, and to whom.

use std::net::SocketAddr;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::app::{ADMIN_KEY, ANY, TestApp, reserve_body};
use crate::harness::http;
use crate::harness::redis::shared;

/// A service with two addresses.
struct SplitService {
    app: TestApp,
    api: SocketAddr,
    admin: SocketAddr,
}

impl SplitService {
    async fn spawn() -> Self {
        let app = TestApp::spawn_on(&shared().url(), &["--admin-listen", ANY]).await;
        app.budget("tenant:acme", 1_000, 0).await;
        let (api, admin) = (app.address, app.admin_address.expect("an address"));
        assert_ne!(api, admin);
        Self { app, api, admin }
    }

    /// Status and error code of a request, on this address and with these headers.
    async fn ask(
        &self,
        address: SocketAddr,
        headers: &[(&str, &str)],
        (method, path, body): &(Method, &str, Value),
    ) -> (u16, String) {
        let url = format!("http://{address}{path}");
        let mut request = http::client().request(method.clone(), url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let response = self.app.send(request).await;
        let (status, code) = response.error();
        (status, code.to_owned())
    }
}

/// A request of every operation of the admin plane, and its status under the admin key.
fn operations() -> Vec<(u16, (Method, &'static str, Value))> {
    let tokens = json!({"unit": "TOKENS", "amount": 5});
    let budget = json!({"tenant_id": "umbra", "scope": "tenant:umbra", "unit": "TOKENS", "allocated": tokens});
    let fund = json!({"operation": "CREDIT", "amount": tokens, "idempotency_key": "f"});
    let tenant = json!({"tenant_id": "umbra", "name": "Umbra"});
    let key = json!({"tenant_id": "umbra", "name": "ci"});
    let fund_path = "/v1/admin/budgets/fund?tenant_id=umbra&scope=tenant:umbra&unit=TOKENS";
    let lookup_path = "/v1/admin/budgets/lookup?tenant_id=umbra&scope=tenant:umbra&unit=TOKENS";
    let (get, post) = (Method::GET, Method::POST);
    let no_key = "/v1/admin/api-keys/key_000_none";
    vec![
        (201, (post.clone(), "/v1/admin/tenants", tenant)),
        (200, (get.clone(), "/v1/admin/tenants/umbra", Value::Null)),
        (201, (post.clone(), "/v1/admin/api-keys", key)),
        (404, (Method::DELETE, no_key, Value::Null)),
        (201, (post.clone(), "/v1/admin/budgets", budget)),
        (200, (post, fund_path, fund)),
        (200, (get.clone(), lookup_path, Value::Null)),
        (200, (get, "/v1/admin/tenants", Value::Null)),
    ]
}

const ADMIN: (&str, &str) = ("X-Admin-API-Key", ADMIN_KEY);

#[tokio::test]
async fn the_api_address_has_no_admin_operation_and_the_admin_address_has_all() {
    let apart = SplitService::spawn().await;
    let key = ("X-Service-API-Key", apart.app.keys[0].as_str());
    let mut requests = operations();
    requests.push((404, (Method::GET, "/v1/admin/x", Value::Null)));
    for (expected, request) in &requests {
        let name = format!("{} {}", request.0, request.1);
        // With a key, the unknown path is 404.
        for headers in [&[][..], &[("X-Admin-API-Key", "wrong")]] {
            let response = apart.ask(apart.api, headers, request).await;
            assert_eq!(
                response,
                (401, "UNAUTHORIZED".to_owned()),
                "{name} {headers:?}"
            );
        }
        for headers in [&[key][..], &[ADMIN]] {
            let response = apart.ask(apart.api, headers, request).await;
            assert_eq!(
                response,
                (404, "NOT_FOUND".to_owned()),
                "{name} {headers:?}"
            );
        }
        let response = apart.ask(apart.api, &[key, ADMIN], request).await;
        assert_eq!(response, (400, "INVALID_REQUEST".to_owned()), "{name}");
        let response = apart.ask(apart.admin, &[], request).await;
        assert_eq!(response, (401, "UNAUTHORIZED".to_owned()), "{name}");
        let (status, code) = apart.ask(apart.admin, &[ADMIN], request).await;
        assert_eq!(status, *expected, "{name}: {code}");
    }
}

/// Listing, reading and releasing are operations of the runtime plane, which the admin key opens as well.
#[tokio::test]
async fn reservations_are_on_the_api_address_for_the_admin_key_too() {
    let apart = SplitService::spawn().await;
    let key = ("X-Service-API-Key", apart.app.keys[0].as_str());
    let response = apart.app.reserve("k", 10).await;
    let one = format!("/v1/reservations/{}", response.text("/reservation_id"));
    let release = format!("{one}/release");
    for request in [
        (Method::GET, "/v1/reservations?tenant=acme", Value::Null),
        (Method::GET, &one, Value::Null),
        (
            Method::POST,
            &release,
            json!({"idempotency_key": "r", "reason": "stuck"}),
        ),
    ] {
        let (status, code) = apart.ask(apart.admin, &[ADMIN], &request).await;
        assert_eq!((status, code.as_str()), (404, "NOT_FOUND"), "{}", request.1);
        let (status, code) = apart.ask(apart.api, &[ADMIN], &request).await;
        assert_eq!(status, 200, "{}: {code}", request.1);
    }
    // Nothing of the runtime plane is on the admin plane's address, whatever the key.
    let create = (Method::POST, "/v1/reservations", reserve_body("k2", 10));
    for (headers, expected) in [(&[key][..], 401), (&[ADMIN], 404), (&[key, ADMIN], 400)] {
        let (status, _) = apart.ask(apart.admin, headers, &create).await;
        assert_eq!(status, expected, "{headers:?}");
    }
}

#[tokio::test]
async fn probes_and_the_description_are_on_both() {
    let apart = SplitService::spawn().await;
    for address in [apart.api, apart.admin] {
        for path in ["/", "/live", "/ready", "/v1/openapi.json", "/docs"] {
            let response = http::get(format!("http://{address}{path}")).await;
            assert_eq!(
                response.expect("an answer").status(),
                200,
                "{address}{path}"
            );
        }
        let metrics = http::get(format!("http://{address}/metrics")).await;
        assert_ne!(metrics.expect("an answer").status(), 200);
    }
}
