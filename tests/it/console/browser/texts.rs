//! Texts that others wrote, times, and long lists.

use jiff::Timestamp;
use serde_json::json;

use super::window::Browser;
use crate::console::{BUDGET, CHAT};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::bulk_calls::ledgers;
use crate::harness::runtime_calls::{ask_body, with};

/// What would set a property of the window as script, in a text or in an attribute.
const MARKUP: &str =
    "\"'></title><script>window.ran = 1</script><img src=/none onerror='window.ran = 1'>";

#[tokio::test]
async fn markup_in_names_is_text() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    let tenant = json!({"tenant_id": "hostile", "name": MARKUP});
    app.post_as_admin("/v1/admin/tenants", tenant)
        .await
        .expect(201);
    let action = json!({"action": {"kind": "llm.completion", "name": MARKUP}});
    let body = with(ask_body("denied", CHAT, 500), action.clone());
    app.post("/v1/reservations", body).await.expect(409);
    let held = app.held(CHAT, 50, action).await;
    let browser = Browser::with_key(&app, ADMIN_KEY).await;
    let change = BUDGET.replace("/budget?", "/budget/change?");
    browser
        .go(&format!("{change}&change=increase&amount=5&for=P1D"))
        .await;
    browser.write("main [name=reason]", MARKUP).await;
    browser.click("main form[method=post] button").await;
    browser.see("main", MARKUP).await;
    let encoded: String = url::form_urlencoded::byte_serialize(MARKUP.as_bytes()).collect();
    for (path, is_text) in [
        ("/console/tenants".to_owned(), true),
        ("/console/tenants/hostile".to_owned(), true),
        ("/console/denials?tenant=acme".to_owned(), true),
        (format!("/console/reservations/{held}"), true),
        (BUDGET.to_owned(), true),
        (
            "/console/usage?tenant=acme&group_by=action_name".to_owned(),
            false,
        ),
        ("/console/events?tenant=acme".to_owned(), false),
        ("/console/audit".to_owned(), false),
        (format!("/console/tenants?search={encoded}"), false),
        (
            format!("{change}&change=fund&reason={encoded}&amount={encoded}"),
            false,
        ),
        (
            format!("/console/login?to=/console/tenants?search={encoded}"),
            false,
        ),
    ] {
        browser.go(&path).await;
        if is_text {
            browser.see("main", MARKUP).await;
        }
        assert_eq!(
            browser.run("return window.ran").await,
            json!(null),
            "{path}"
        );
        assert_eq!(browser.count("main img, main script").await, 0, "{path}");
        assert_eq!(browser.errors().await, Vec::<String>::new(), "{path}");
    }
}

#[tokio::test]
async fn times_are_in_the_zone_of_the_reader() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    app.create("denied", CHAT, 500, json!({})).await.expect(409);
    let browser = Browser::of(&app).await;
    browser.locate("Asia/Tokyo", "de-DE").await;
    browser.go("/console/denials?tenant=acme").await;
    browser.log_in(ADMIN_KEY).await;
    let utc = browser.attribute("main time", "datetime").await;
    assert_eq!(browser.attribute("main time", "title").await, utc);
    let time: Timestamp = utc.parse().expect("a time");
    let there = time.in_tz("Asia/Tokyo").expect("a zone");
    let local = there.strftime("%-d.%-m.%Y, %H:%M:%S").to_string();
    browser.see("main time", &local).await;
    browser.see("footer", "Asia/Tokyo").await;
}

#[tokio::test]
async fn ten_thousand_budgets_are_read_page_by_page() {
    let app = TestApp::spawn().await;
    let tenant = json!({"tenant_id": "many", "name": "Many agents"});
    app.post_as_admin("/v1/admin/tenants", tenant)
        .await
        .expect(201);
    ledgers(&app.store, "many", 10_000).await;
    let browser = Browser::with_key(&app, ADMIN_KEY).await;
    browser.go("/console/tenants/many").await;
    let first_row = "tbody tr:first-child a";
    let mut seen = vec![browser.text(first_row).await];
    for _ in 0..3 {
        assert_eq!(browser.count("tbody tr").await, 50);
        let next = browser.attribute("a[rel=next]", "href").await;
        browser.click("a[rel=next]").await;
        browser
            .arrive(&format!("/console/tenants/many{next}"))
            .await;
        let row = browser.text(first_row).await;
        assert!(!seen.contains(&row), "{row} is on two pages");
        seen.push(row);
    }
    browser.go("/console/tenants/many").await;
    browser.write("main [name=search]", "agent:a9999").await;
    browser.click("main form button").await;
    // A search reads 5,000 budgets for a page.
    browser.see("main", "Nothing found so far.").await;
    browser.click("a[rel=next]").await;
    browser.see("tbody", "agent:a9999").await;
    assert_eq!(browser.count("tbody tr").await, 1);
}
