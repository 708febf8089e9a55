//! Changes from the console: what is denied is found, and let through.

use budget_authority::domain::amount::Unit;
use reqwest::{StatusCode, header};
use serde_json::json;

use super::reader::Reader;
use super::{BUDGET, CHAT};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::runtime_calls::ledger;

/// The path of a change of the budget of `CHAT`.
fn change(more: &str) -> String {
    format!("{}&{more}", BUDGET.replace("/budget?", "/budget/change?"))
}

#[tokio::test]
async fn a_denied_call_is_found_and_passes_after_an_increase() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    assert_eq!(app.create("denied", CHAT, 500, json!({})).await.status, 409);
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let denials = reader.get("/console/denials?tenant=acme").await;
    assert!(
        denials.has("BUDGET_EXCEEDED")
            && denials.has("500 tokens")
            && denials.has("100 tokens left then"),
        "{}",
        denials.text
    );
    // What it has now, and who holds what there.
    assert!(
        denials.has("100 tokens left of 100 tokens") && denials.has("No active reservation."),
        "{}",
        denials.text
    );
    let link = denials
        .text
        .split('"')
        .find(|text| text.contains("change=increase"));
    let link = link.expect("a way out").replace("&amp;", "&");
    let preview = reader.follow(&link).await;
    assert!(
        preview.has("Then: 500 tokens remaining of 500 tokens allocated"),
        "{}",
        preview.text
    );
    // Another amount than the one of the link.
    let back = preview.text.split('"').find(|text| text.contains("edit=1"));
    let back = back.expect("a way to the fields").replace("&amp;", "&");
    let fields = reader
        .follow(&format!("/console/budget/change{back}"))
        .await;
    assert!(
        fields.has("required value=\"400 tokens\"") && fields.has("value=\"denied call\""),
        "{}",
        fields.text
    );
    let key = preview.field("key");
    let form = [
        ("key", key.as_str()),
        ("scope", CHAT),
        ("unit", "TOKENS"),
        ("change", "increase"),
        ("amount", "400"),
        ("for", "P1D"),
        ("reason", "denied call"),
    ];
    // Twice: of two windows with the same form, one has an effect.
    for _ in 0..2 {
        let done = reader.post("/console/budget/change", &form).await;
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
        assert!(done.header(header::LOCATION).ends_with("&done=increase"));
    }
    assert_eq!(app.figures(CHAT).await.0, 500);
    assert_eq!(app.create("denied", CHAT, 500, json!({})).await.status, 200);
    let budget = reader.get(BUDGET).await;
    assert!(
        budget.has("400 tokens until") && budget.has("denied call"),
        "{}",
        budget.text
    );
    // And it ends before its time.
    let link = budget
        .text
        .split('"')
        .find(|text| text.contains("change=end_increase"));
    let link = link.expect("a way back").replace("&amp;", "&");
    let preview = reader.follow(&link).await;
    assert!(
        preview.has("Then: 400 tokens less allocated"),
        "{}",
        preview.text
    );
    let (key, increase) = (preview.field("key"), preview.field("increase"));
    let form = [
        ("key", key.as_str()),
        ("scope", CHAT),
        ("unit", "TOKENS"),
        ("change", "end_increase"),
        ("increase", increase.as_str()),
    ];
    for _ in 0..2 {
        let done = reader.post("/console/budget/change", &form).await;
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    }
    let ended = reader.get(BUDGET).await;
    assert!(!ended.has("End now"), "{}", ended.text);
    let late = reader.follow(&link).await;
    assert!(late.has("it has no increase any more"), "{}", late.text);
}

#[tokio::test]
async fn a_budget_is_funded_frozen_and_unfrozen() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let asks = reader.follow(&change("change=fund")).await;
    assert!(asks.has("Show what will change"), "{}", asks.text);
    assert!(asks.has("rises for good."), "{}", asks.text);
    let preview = reader.follow(&change("change=fund&amount=1,900")).await;
    assert!(
        preview.has("Then: 2,000 tokens remaining of 2,000 tokens allocated"),
        "{}",
        preview.text
    );
    for (name, amount) in [("fund", "1,900"), ("freeze", ""), ("unfreeze", "")] {
        let page = reader
            .follow(&change(&format!("change={name}&amount={amount}")))
            .await;
        let key = page.field("key");
        let form = [
            ("key", key.as_str()),
            ("scope", CHAT),
            ("unit", "TOKENS"),
            ("change", name),
            ("amount", amount),
        ];
        let done = reader.post("/console/budget/change", &form).await;
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{name}: {}", done.text);
        let budget = reader.get(BUDGET).await;
        for text in ["<strong class=\"bad\">frozen", "<p>Frozen by "] {
            assert_eq!(budget.has(text), name == "freeze", "{text}");
        }
    }
    assert_eq!(app.figures(CHAT).await.0, 2_000);
    let typo = reader.follow(&change("change=fund&amount=1kg")).await;
    assert!(
        typo.has("amount must be an amount such as") && typo.has("Show what will change"),
        "{}",
        typo.text
    );
    let spoofed = reader.get(&format!("{BUDGET}&done=call+us")).await;
    assert!(!spoofed.has("role=\"status\""), "{}", spoofed.text);
    // What is refused is said, with the form as it was.
    let form = [
        ("key", "k1"),
        ("scope", CHAT),
        ("unit", "TOKENS"),
        ("change", "increase"),
        ("amount", "5"),
        ("for", "P1D"),
    ];
    let refused = reader.post("/console/budget/change", &form).await;
    assert!(
        refused.has("role=\"alert\"") && refused.has("reason"),
        "{}",
        refused.text
    );
    assert!(
        refused.has("name=\"amount\" required value=\"5\""),
        "{}",
        refused.text
    );
    assert_eq!(
        reader.follow(&change("change=close")).await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_form_of_another_origin_changes_nothing() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let form = [
        ("key", "k1"),
        ("scope", CHAT),
        ("unit", "TOKENS"),
        ("change", "fund"),
        ("amount", "5"),
    ];
    for site in ["cross-site", "same-site", "none"] {
        for path in [
            "/console/budget/change",
            "/console/login",
            "/console/logout",
        ] {
            let page = reader.post_from(site, path, &form).await;
            assert_eq!(page.status, StatusCode::FORBIDDEN, "{site} {path}");
        }
    }
    let long = "x".repeat(17_000);
    let page = reader.post("/console/login", &[("key", &long)]).await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(app.figures(CHAT).await.0, 100);
    assert_eq!(reader.get("/console").await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_period_of_a_budget_is_changed() {
    let app = TestApp::spawn().await;
    app.budget_in(CHAT, Unit::UsdMicrocents, 500_000_000, 0)
        .await;
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let path = |more: &str| change(more).replace("TOKENS", "USD_MICROCENTS");
    let empty = reader.follow(&path("change=period")).await;
    assert!(empty.has("empty: what is allocated now"), "{}", empty.text);
    let filled = "change=period&sent=1&every=P1D&time_zone=Europe/Berlin&amount=";
    let typo = reader.follow(&path(&format!("{filled}7"))).await;
    assert!(
        typo.has("amount must have its unit, such as 5usd or $5"),
        "{}",
        typo.text
    );
    let preview = reader.follow(&path(&format!("{filled}7usd"))).await;
    assert!(
        preview.has("Then: $7.00 at the start of each period of P1D in Europe/Berlin."),
        "{}",
        preview.text
    );
    let key = preview.field("key");
    let mut form = vec![
        ("key", key.as_str()),
        ("scope", CHAT),
        ("unit", "USD_MICROCENTS"),
        ("change", "period"),
        ("every", "P1D"),
        ("time_zone", "Europe/Berlin"),
        ("amount", "7usd"),
    ];
    let done = reader.post("/console/budget/change", &form).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    let budget = BUDGET.replace("TOKENS", "USD_MICROCENTS");
    let page = reader.get(&budget).await;
    assert!(page.has("$7.00 every P1D, Europe/Berlin"), "{}", page.text);
    let fund = reader.follow(&path("change=fund")).await;
    assert!(fund.has("in the present period;"), "{}", fund.text);
    let audited = reader
        .get("/console/audit?tenant=acme&operation=updateBudget")
        .await;
    assert!(
        audited.has("P1D") && audited.has("Europe/Berlin") && audited.has("700000000"),
        "{}",
        audited.text
    );
    form.truncate(4);
    form[0].1 = "another";
    let done = reader.post("/console/budget/change", &form).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    assert!(!reader.get(&budget).await.has("every P1D"));
}

#[tokio::test]
async fn a_denial_offers_what_lets_it_pass_and_nothing_else() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 50).await;
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    app.place(CHAT, 100, 50, ledger(-40, 0, 100, 40)).await;
    assert_eq!(app.create("denied", CHAT, 10, json!({})).await.status, 409);
    let denials = reader.get("/console/denials?tenant=acme").await;
    let offers = |page: &super::reader::Page| {
        let names = ["fund", "increase", "renew", "repay", "unfreeze"];
        let found = names
            .iter()
            .filter(|name| page.has(&format!("change={name}")));
        found.copied().collect::<Vec<_>>()
    };
    assert_eq!(offers(&denials), ["renew", "repay"], "{}", denials.text);
    let link = denials
        .text
        .split('"')
        .find(|text| text.contains("change=repay"));
    let preview = reader
        .follow(&link.expect("a way out").replace("&amp;", "&"))
        .await;
    assert!(
        preview.has("Then: 40 tokens less debt than 40 tokens."),
        "{}",
        preview.text
    );
    let key = preview.field("key");
    let form = [
        ("key", key.as_str()),
        ("scope", CHAT),
        ("unit", "TOKENS"),
        ("change", "repay"),
        ("amount", "40 tokens"),
    ];
    let done = reader.post("/console/budget/change", &form).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    assert_eq!(app.figures(CHAT).await.3, 0);
    let denials = reader.get("/console/denials?tenant=acme").await;
    assert!(
        offers(&denials).is_empty() && denials.has("no debt any more"),
        "{}",
        denials.text
    );
    let path = format!("/v1/admin/budgets/freeze?scope={CHAT}&unit=TOKENS");
    app.post_as_admin(&path, json!({})).await.expect(200);
    let budget = reader.get(BUDGET).await;
    assert_eq!(offers(&budget), ["unfreeze"], "{}", budget.text);
}
