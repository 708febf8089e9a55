//! Pages of other origins, which act on the console while its reader is logged in.

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Html;
use axum::routing::get;
use tokio::net::TcpListener;

use super::window::Browser;
use crate::console::CHAT;
use crate::harness::app::{ADMIN_KEY, ANY, TestApp};

/// A page at a port of its own, with a form and a frame of the console whose URL is its query; that port.
async fn another_site() -> u16 {
    let page = async |RawQuery(console): RawQuery| {
        let console = console.unwrap_or_default();
        Html(format!(
            "<!doctype html><title>another site</title><link rel=icon href='data:,'>
             <form method=post action='{console}/console/budget/change'>
             <input name=key value=k1><input name=scope value='{CHAT}'><input name=unit value=TOKENS>
             <input name=change value=fund><input name=amount value=5><button>Win a prize</button></form>
             <a href='{console}/console/tenants'>a link</a><iframe src='{console}/console/tenants'></iframe>"
        ))
    };
    let listener = TcpListener::bind(ANY).await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let serving = axum::serve(listener, Router::new().route("/", get(page)));
    tokio::spawn(serving.into_future());
    port
}

/// Sends the same form by script, with cookies.
const FETCH: &str = "
const form = document.forms[0];
const options = {method: 'POST', mode: 'no-cors', credentials: 'include', body: new URLSearchParams(new FormData(form))};
return fetch(form.action, options).then(() => 'sent', error => 'failed: ' + error)";

#[tokio::test]
async fn another_origin_changes_nothing() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    let port = another_site().await;
    let browser = Browser::with_key(&app, ADMIN_KEY).await;
    browser.arrive("/console").await;
    // Another port of the same host, whose cookies it shares, and another host.
    let hosts = [
        ("127.0.0.1", "Open the page itself"),
        ("localhost", "Log in"),
    ];
    for (host, outcome) in hosts {
        let site = format!("http://{host}:{port}/?{}", browser.base);
        browser.go(&site).await;
        browser.see("button", "Win a prize").await;
        let errors = browser.errors().await.join("\n");
        assert!(errors.contains("frame-ancestors"), "{host}: {errors}");
        assert_eq!(browser.run(FETCH).await, "sent");
        browser.click("button").await;
        browser.see("main", outcome).await;
        assert_eq!(app.figures(CHAT).await.0, 100, "{host}");
    }
    // The cookie does not come along with a link of another host, but with the reload of the page to which it leads.
    browser
        .go(&format!("http://localhost:{port}/?{}", browser.base))
        .await;
    browser.click("a").await;
    browser.see("h1", "Tenants").await;
}
