//! Changes that a reader makes by clicking.

use serde_json::json;

use super::window::Browser;
use crate::console::{BUDGET, CHAT};
use crate::harness::app::{ADMIN_KEY, TestApp};

/// Begins a change on the page of the budget of `CHAT`, up to the form that makes it.
async fn begin(browser: &Browser, change: &str, amount: Option<&str>) {
    browser.go(BUDGET).await;
    let link = format!("a[href*='change={change}']");
    browser.click(&link).await;
    if let Some(amount) = amount {
        browser.write("main [name=amount]", amount).await;
        browser.click("main form button").await;
    }
}

/// Sends the form that makes a change, and waits for the page that says so.
async fn finish(browser: &Browser, change: &str) {
    browser.click("main form[method=post] button").await;
    browser.arrive(&format!("{BUDGET}&done={change}")).await;
    assert_ne!(browser.text("main [role=status]").await, "");
}

/// A denied call, the change that lets it pass, and the call again.
pub(super) async fn increase_after_denial(app: &TestApp, browser: &Browser) {
    app.create("denied", CHAT, 500, json!({})).await.expect(409);
    browser.click("a[href='/console/denials']").await;
    browser.write("main [name=tenant]", "acme").await;
    browser.click("main form button").await;
    browser.see("main", "500 tokens").await;
    browser.click("main a[href*='change=increase']").await;
    browser.see("main", "500 tokens").await;
    finish(browser, "increase").await;
    browser.see("main", "denied call").await;
    app.create("denied", CHAT, 500, json!({})).await.expect(200);
}

#[tokio::test]
async fn a_denied_call_passes_after_an_increase() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    let browser = Browser::with_key(&app, ADMIN_KEY).await;
    increase_after_denial(&app, &browser).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_budget_is_funded_renewed_frozen_and_unfrozen() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    app.post_event("e1", CHAT, 60, json!({})).await.expect(201);
    let browser = Browser::with_key(&app, ADMIN_KEY).await;
    begin(&browser, "fund", Some("1,900")).await;
    finish(&browser, "fund").await;
    assert_eq!(app.figures(CHAT).await, (1_940, 0, 60, 0));
    begin(&browser, "renew", None).await;
    finish(&browser, "renew").await;
    assert_eq!(app.figures(CHAT).await, (2_000, 0, 0, 0));
    begin(&browser, "freeze", None).await;
    finish(&browser, "freeze").await;
    let frozen = app.create("k1", CHAT, 5, json!({})).await;
    assert_eq!(frozen.error(), (409, "BUDGET_FROZEN"));
    begin(&browser, "unfreeze", None).await;
    finish(&browser, "unfreeze").await;
    app.create("k2", CHAT, 5, json!({})).await.expect(200);
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_reservation_is_released_and_a_charge_refunded() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 2_000, 0).await;
    let held = app.held(CHAT, 500, json!({})).await;
    let charged = app.create("k1", CHAT, 300, json!({})).await.expect(200);
    let charged = charged.text("/reservation_id").to_owned();
    app.commit(&charged, "c1", 300).await.expect(200);
    let browser = Browser::with_key(&app, ADMIN_KEY).await;
    browser.go(BUDGET).await;
    browser.click(&format!("a[href$='{held}']")).await;
    browser.write("main [name=reason]", "stuck").await;
    browser.click("main form[method=post] button").await;
    browser
        .arrive(&format!("/console/reservations/{held}?done=release"))
        .await;
    assert_eq!(app.figures(CHAT).await, (1_700, 0, 300, 0));
    browser
        .go(&format!("/console/reservations/{charged}"))
        .await;
    browser.write("main [name=amount]", "1,000").await;
    browser.write("main [name=reason]", "wrong answer").await;
    browser.click("main form[method=post] button").await;
    browser.see("[role=alert]", "300").await;
    browser.write("main [name=amount]", "100").await;
    browser.click("main form[method=post] button").await;
    browser
        .arrive(&format!("/console/reservations/{charged}?done=refund"))
        .await;
    assert_eq!(app.figures(CHAT).await, (1_800, 0, 200, 0));
}

#[tokio::test]
async fn one_form_in_two_windows_has_one_effect() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    let browser = Browser::with_key(&app, ADMIN_KEY).await;
    begin(&browser, "fund", Some("50")).await;
    browser.see("main", "150 tokens").await;
    let (first, form) = (browser.window().await, browser.path().await);
    let second = browser.open_window().await;
    browser.go(&form).await;
    for window in [first, second] {
        browser.switch(&window).await;
        finish(&browser, "fund").await;
    }
    assert_eq!(app.figures(CHAT).await.0, 150);
    // Once more from the history.
    browser.back().await;
    browser.see("main", "150 tokens").await;
    finish(&browser, "fund").await;
    assert_eq!(app.figures(CHAT).await.0, 150);
}

#[tokio::test]
async fn an_operator_needs_no_script() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    let browser = Browser::of(&app).await;
    browser.disable_script().await;
    browser.go("/console").await;
    browser.log_in(ADMIN_KEY).await;
    increase_after_denial(&app, &browser).await;
    let utc = browser.attribute("main time", "datetime").await;
    assert!(utc.ends_with('Z'), "{utc}");
    assert_eq!(browser.text("main time").await, utc);
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
