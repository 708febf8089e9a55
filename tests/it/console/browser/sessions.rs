//! Logging in and out.

use super::window::Browser;
use crate::harness::app::{ADMIN_KEY, TestApp};

const TENANTS: &str = "/console/tenants?search=bolt";
const LOGIN: &str = "/console/login?to=%2Fconsole%2Ftenants%3Fsearch%3Dbolt";

#[tokio::test]
async fn an_operator_logs_in_and_out_and_comes_back_to_the_page() {
    let app = TestApp::spawn().await;
    let browser = Browser::of(&app).await;
    browser.go(TENANTS).await;
    assert_eq!(browser.path().await, LOGIN);
    browser.log_in("a-wrong-key").await;
    browser
        .see("[role=alert]", "This key is unknown, revoked or expired.")
        .await;
    // The status of that page is 401, which the browser counts as an error.
    assert_eq!(browser.errors().await.len(), 1);
    browser.log_in(ADMIN_KEY).await;
    browser.arrive(TENANTS).await;
    browser.see("main", "No tenant matches.").await;
    assert_eq!(browser.run("return document.cookie").await, "");

    // Its session ends elsewhere.
    for key in app.keys_like("*{dir}:console:*").await {
        app.run::<()>(&["DEL", &key]).await;
    }
    browser.reload().await;
    browser.arrive(LOGIN).await;
    browser.log_in(ADMIN_KEY).await;
    browser.arrive(TENANTS).await;
    browser.forget_cookies().await;
    browser.go(TENANTS).await;
    browser.arrive(LOGIN).await;
    browser.log_in(ADMIN_KEY).await;
    browser.arrive(TENANTS).await;

    browser.click("form[action='/console/logout'] button").await;
    browser.arrive("/console/login").await;
    browser.go("/console").await;
    browser.arrive("/console/login?to=%2Fconsole").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_session_ends_with_the_key_of_its_tenant() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme/app:chat", 2_000, 0).await;
    let key = app.keys[0].clone();
    let browser = Browser::with_key(&app, &key).await;
    browser.arrive("/console/tenants/acme").await;
    browser.see("table", "2,000 tokens").await;
    assert_eq!(browser.count("a[href='/console/tenants']").await, 0);
    app.change_key(&key, &[("status", "REVOKED")]).await;
    browser.reload().await;
    browser.arrive("/console/login").await;
    browser.log_in(&key).await;
    browser.see("[role=alert]", "revoked").await;
}
