//! A webhook that is made, tested, paused and replayed by clicking; events that come while a reader follows them.

use super::window::Browser;
use crate::harness::app::ADMIN_KEY;
use crate::harness::deliveries::{RunningDispatcher, fund, here};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};

#[tokio::test]
async fn a_webhook_is_made_and_its_events_delivered_again() {
    let app = here().await;
    let _dispatcher = RunningDispatcher::start(&app);
    let receiver = Receiver::start(Reply::Status(204, "")).await;
    let url = format!("http://receiver.test:{}/in", receiver.address.port());
    let browser = Browser::with_key(&app, ADMIN_KEY).await;
    browser.go("/console/webhooks?tenant=umbra").await;
    browser.click("summary").await;
    browser.write("details [name=url]", &url).await;
    browser
        .write("details [name=event_types]", "budget.funded")
        .await;
    browser.click("details button").await;
    browser.see("[role=status]", "is created").await;
    assert!(browser.text(".secret").await.len() > 16);
    browser.click("tbody a").await;
    browser.see("dl", "receiver.test").await;
    browser.click("button[value=test]").await;
    browser.see("[role=status]", "status 204").await;
    fund(&app, 1).await;
    eventually("the event", async || receiver.arrived().len() == 2).await;
    browser.click("button[value=pause]").await;
    browser.see("dl", "paused").await;
    browser.click("button[value=resume]").await;
    browser.see("[role=status]", "Resumed.").await;
    browser.click("summary").await;
    // The keys of a field for date and time depend on the language of the browser.
    browser
        .run("document.querySelector('[name=from]').value = '2026-01-01T00:00'")
        .await;
    browser.click("details button").await;
    browser.see("[role=status]", "1 event will be").await;
    eventually("the event again", async || receiver.arrived().len() == 3).await;
    browser.click("nav a[href='?status=SUCCESS']").await;
    browser.see("tbody", "204 in").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn new_events_appear_while_they_are_followed() {
    let app = here().await;
    let browser = Browser::with_key(&app, ADMIN_KEY).await;
    browser
        .go("/console/events?tenant=umbra&event_type=budget.funded&follow=1")
        .await;
    browser.see("#rows", "No event.").await;
    fund(&app, 1).await;
    browser.see("#rows", "budget.funded").await;
    assert_eq!(browser.count("tbody tr").await, 1);
    fund(&app, 1).await;
    browser
        .see("#rows tbody tr:nth-child(2)", "budget.funded")
        .await;
    // Its key ends: the part leads to the page that says so.
    for key in app.keys_like("*{dir}:console:*").await {
        app.run::<()>(&["DEL", &key]).await;
    }
    browser.see("h1", "Log in").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
