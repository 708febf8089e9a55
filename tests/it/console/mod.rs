//! The console, page by page, as a browser without script sees it.

mod attention;
mod browser;
mod changes;
mod management;
mod pages;
pub(crate) mod reader;
mod sessions;

use budget_authority::domain::amount::Unit;
use reqwest::{StatusCode, header};
use serde_json::json;

use crate::harness::app::{ADMIN_KEY, TestApp};

use reader::Reader;

const CHAT: &str = "tenant:acme/app:chat";

/// The page of the budget of `CHAT`.
const BUDGET: &str = "/console/budget?scope=tenant%3Aacme%2Fapp%3Achat&unit=TOKENS";

/// A tenant that the admin plane made, beside those of the fixture; the secret of its key.
async fn shop(app: &TestApp) -> String {
    let tenant = json!({"tenant_id": "shop", "name": "Shop"});
    app.post_as_admin("/v1/admin/tenants", tenant)
        .await
        .expect(201);
    let key = json!({"tenant_id": "shop", "name": "till"});
    let made = app
        .post_as_admin("/v1/admin/api-keys", key)
        .await
        .expect(201);
    made.text("/key_secret").to_owned()
}

#[tokio::test]
async fn an_operator_finds_a_budget_and_what_holds_on_it() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 10_000, 0).await;
    app.budget(CHAT, 2_000, 0).await;
    let id = app.held(CHAT, 500, json!({})).await;
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let overview = reader.get("/console").await;
    assert_eq!(overview.status, StatusCode::OK);
    assert!(overview.has("<h1>Overview</h1>") && overview.has("Needs attention"));
    let admin = app.admin_fixture();
    admin.tenant("shop").await;
    admin.budget("shop", "tenant:shop/app:till", 1_500).await;
    let tenants = reader.get("/console/tenants").await;
    assert!(
        tenants.has("href=\"/console/tenants/shop\""),
        "{}",
        tenants.text
    );
    let tenant = reader.get("/console/tenants/shop").await;
    assert!(
        tenant.has("/console/budget?scope=tenant%3Ashop%2Fapp%3Atill&unit=TOKENS"),
        "{}",
        tenant.text
    );
    assert!(
        tenant.has("1,500 tokens") && tenant.has("0.0 % spent, 0.0 % held"),
        "{}",
        tenant.text
    );
    let budget = reader.get(BUDGET).await;
    assert!(
        budget.has(&id)
            && budget.has("25.0 % held")
            && budget.has("500 tokens")
            && budget.has("1500 TOKENS"),
        "{}",
        budget.text
    );
    let missing = reader
        .get("/console/budget?scope=tenant%3Aacme&unit=CREDITS")
        .await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert_eq!(
        reader.get("/console/other").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn what_holds_on_a_budget_is_of_its_unit_and_in_its_scope() {
    let app = TestApp::spawn().await;
    let elsewhere = "tenant:acme/workspace:lab/app:chat";
    for scope in [CHAT, elsewhere] {
        app.budget(scope, 2_000, 0).await;
    }
    app.budget_in(CHAT, Unit::Credits, 50, 0).await;
    let below = app
        .held("tenant:acme/app:chat/agent:helper", 100, json!({}))
        .await;
    let other = app.held(elsewhere, 200, json!({})).await;
    let credits = json!({"estimate": {"unit": "CREDITS", "amount": 7}});
    let credits = app.held(CHAT, 7, credits).await;
    let reader = Reader::with_key(&app, &app.keys[0].clone()).await;
    let page = reader.get(BUDGET).await;
    assert!(
        page.has(&below) && !page.has(&other) && !page.has(&credits),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn every_page_admits_nothing_from_elsewhere_and_is_not_kept() {
    let app = TestApp::spawn().await;
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    for path in [
        "/console",
        "/console/login",
        "/console/tenants",
        "/console/denials",
        "/console/other",
    ] {
        let page = reader.get(path).await;
        let policy = page.header(header::CONTENT_SECURITY_POLICY);
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{path}"
        );
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
        assert_eq!(page.header(header::CACHE_CONTROL), "no-store", "{path}");
        assert!(!page.has(" style=") && !page.has("onclick"), "{path}");
    }
    let page = reader.get("/console/login").await;
    assert_eq!(page.header(header::LOCATION), "/console");
    let page = Reader::of(&app).get("/console/login").await;
    let assets: Vec<_> = page
        .text
        .split('"')
        .filter(|text| text.starts_with("/console/assets/"))
        .collect();
    assert_eq!(assets.len(), 3, "{}", page.text);
    for path in assets {
        let asset = reader.get(path).await;
        assert_eq!(asset.status, StatusCode::OK, "{path}");
        assert_eq!(
            asset.header(header::CACHE_CONTROL),
            "public, max-age=31536000, immutable"
        );
    }
    assert_eq!(
        reader.get("/console/assets/other.css").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_tenant_sees_its_own_budgets_alone() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 2_000, 0).await;
    let other = app.callers[1].tenant.to_string();
    app.budget_of(1, &format!("tenant:{other}"), 7_000).await;
    let reader = Reader::with_key(&app, &app.keys[0].clone()).await;
    assert_eq!(
        reader.get("/console").await.header(header::LOCATION),
        "/console/tenants/acme"
    );
    for tenant in ["acme", &other] {
        let page = reader.get(&format!("/console/tenants/{tenant}")).await;
        assert!(
            page.has("2,000 tokens") && !page.has("7,000 tokens"),
            "{}",
            page.text
        );
    }
    let foreign = reader
        .get(&format!(
            "/console/budget?scope=tenant%3A{other}&unit=TOKENS"
        ))
        .await;
    assert!(
        foreign.status.is_client_error() && !foreign.has("7,000"),
        "{}",
        foreign.text
    );
    let tenants = reader.get("/console/tenants").await;
    assert!(tenants.status.is_client_error(), "{}", tenants.text);
    assert!(!reader.get(BUDGET).await.has("change=freeze"));
}

#[tokio::test]
async fn a_key_with_a_scope_filter_sees_what_lies_within() {
    let app = TestApp::spawn().await;
    let search = "tenant:acme/app:search";
    for (scope, amount) in [("tenant:acme", 9_000), (CHAT, 2_000), (search, 3_000)] {
        app.budget(scope, amount, 0).await;
    }
    for scope in [CHAT, search] {
        app.create(scope, scope, 5_000, json!({})).await.expect(409);
    }
    let permissions = " budgets:read events:read reservations:list ";
    let key = app
        .add_key(0, &[("scope_filter", CHAT), ("permissions", permissions)])
        .await;
    let reader = Reader::with_key(&app, &key).await;
    let tenant = reader.get("/console/tenants/acme").await;
    assert!(
        tenant.has("2,000 tokens") && !tenant.has("3,000 tokens") && !tenant.has("9,000 tokens"),
        "{}",
        tenant.text
    );
    let denials = reader.get("/console/denials").await;
    assert!(
        denials.has("2,000 tokens left") && !denials.has("app:search"),
        "{}",
        denials.text
    );
    let outside = BUDGET.replace("chat", "search");
    assert_eq!(reader.get(&outside).await.status, StatusCode::FORBIDDEN);
    let operators = reader.get("/console/keys/key_none").await;
    assert!(
        operators.has("This page is for operators."),
        "{}",
        operators.text
    );
}

#[tokio::test]
async fn a_name_with_markup_stays_text() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    let mut body = crate::harness::runtime_calls::ask_body("denied", CHAT, 500);
    body["action"]["name"] = "<script>alert(1)</script>".into();
    assert_eq!(app.post("/v1/reservations", body).await.status, 409);
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let page = reader.get("/console/denials?tenant=acme").await;
    assert!(
        !page.has("<script>alert") && page.has("&lt;script&gt;alert(1)"),
        "{}",
        page.text
    );
    let search = reader.get("/console/tenants?search=%22%3E%3Cb%3E").await;
    assert!(!search.has("\"><b>"), "{}", search.text);
}

#[tokio::test]
async fn it_can_be_switched_off_and_is_never_on_the_address_of_agents() {
    let app = TestApp::spawn().await;
    let off = app.replica(&["--console=false"]).await;
    assert_eq!(
        Reader::of(&off).get("/console/login").await.status,
        StatusCode::UNAUTHORIZED
    );
    let apart = app.replica(&["--admin-listen", "127.0.0.1:0"]).await;
    let url = format!("http://{}/console/login", apart.address);
    let response = crate::harness::http::get(url).await.expect("a response");
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    // There, too, it reads what is on the address of agents.
    app.budget(CHAT, 2_000, 0).await;
    let id = app.held(CHAT, 500, json!({})).await;
    let reader = Reader::with_key(&apart, ADMIN_KEY).await;
    assert!(reader.get(BUDGET).await.has(&id));
}
