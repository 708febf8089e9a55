//! Renders templates.

use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde_json::{Value, json};

use super::assets::ASSETS;
use super::format;

macro_rules! templates {
    ($($name:literal),+) => { [$(($name, include_str!(concat!("templates/", $name)))),+] };
}

/// The templates, read once. Every text is escaped.
static PAGES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut pages = Environment::new();
    pages.set_auto_escape_callback(|_| AutoEscape::Html);
    pages.set_undefined_behavior(UndefinedBehavior::Chainable);
    for (name, text) in templates!(
        "base.html",
        "parts.html",
        "login.html",
        "refused.html",
        "reload.html",
        "overview.html",
        "spend.html",
        "tenants.html",
        "tenant.html",
        "budget.html",
        "change.html",
        "denials.html",
        "usage.html",
        "reservation.html",
        "reservations.html",
        "charges.html",
        "charge.html",
        "evidence.html",
        "events.html",
        "event.html",
        "audit.html",
        "webhooks.html",
        "webhook.html",
        "keys.html",
        "key.html",
        "policies.html"
    ) {
        pages
            .add_template(name, text)
            .expect("a test renders each template");
    }
    format::add_to(&mut pages);
    for asset in &*ASSETS {
        pages.add_global(asset.name, asset.path());
    }
    pages
});

/// A page.
pub(super) fn render(status: StatusCode, name: &str, context: Value) -> Response {
    let page = PAGES
        .get_template(name)
        .and_then(|page| page.render(Serde(context)));
    match page {
        Ok(page) => (status, Html(page)).into_response(),
        Err(error) => {
            tracing::error!(error = %error, "cannot render {name}: {error:#}");
            let message = "This page cannot be shown; the log says why.";
            (StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
        }
    }
}

/// A page that says why there is no other one. It does not know its reader, so it links what all readers have.
pub(super) fn refusal(status: StatusCode, message: &str) -> Response {
    let context =
        json!({"title": "That did not work", "message": message, "reader": {"tenant": true}});
    render(status, "refused.html", context)
}
