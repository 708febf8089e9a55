//! Pages that are read more than changed: usage, a reservation, and the lists.

use budget_authority::domain::amount::Unit;
use reqwest::{StatusCode, header};
use serde_json::json;

use super::reader::Reader;
use super::{BUDGET, CHAT, shop};
use crate::evidence::fixture::EvidenceFixture;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::{event_body, with};

#[tokio::test]
async fn usage_is_a_table_a_chart_and_csv() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 2_000, 0).await;
    app.post_event("e1", CHAT, 1_234, json!({}))
        .await
        .expect(201);
    for (key, tenant) in [(ADMIN_KEY, "tenant=acme"), (app.keys[0].as_str(), "")] {
        let reader = Reader::with_key(&app, key).await;
        let page = reader
            .get(&format!("/console/usage?{tenant}&group_by=app"))
            .await;
        assert!(
            page.has("<td>chat</td><td>1,234 tokens <small>1234 TOKENS</small>")
                && page.has("aria-label=\"100.0 %\""),
            "{}",
            page.text
        );
        assert!(
            page.has("class=\"chart\"") && page.has(": 1,234 tokens</title>"),
            "{}",
            page.text
        );
        let link = page
            .text
            .split('"')
            .find(|text| text.starts_with("/console/usage.csv"));
        let csv = reader
            .get(&link.expect("a link").replace("&amp;", "&"))
            .await;
        assert_eq!(csv.status, StatusCode::OK, "{}", csv.text);
        assert!(
            csv.has("app,other,unit,charged") && csv.has("chat,false,TOKENS,1234,0,1"),
            "{}",
            csv.text
        );
        assert!(
            csv.header(header::CONTENT_DISPOSITION)
                .contains("usage.csv")
        );
    }
    // Each unit has a chart of its own.
    app.budget_in(CHAT, Unit::Credits, 50, 0).await;
    let body = with(
        event_body("e2", CHAT, 7),
        json!({"actual": {"unit": "CREDITS", "amount": 7}}),
    );
    app.post("/v1/events", body).await.expect(201);
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let page = reader.get("/console/usage?tenant=acme").await;
    for most in [
        "Credits by day",
        "at most 7 credits",
        "Tokens by day",
        "at most 1,234 tokens",
    ] {
        assert!(page.has(most), "{most}: {}", page.text);
    }
    assert_eq!(
        page.text.matches("height=\"100.0\"").count(),
        2,
        "{}",
        page.text
    );
    assert!(reader.get("/console/usage").await.has("Enter a tenant"));
    let wrong = reader
        .get("/console/usage?tenant=acme&from=yesterday")
        .await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(
        wrong.has("from") && wrong.has("2026-07-04"),
        "{}",
        wrong.text
    );
}

#[tokio::test]
async fn a_reservation_is_released_or_its_charge_refunded() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 2_000, 0).await;
    let held = app.held(CHAT, 500, json!({})).await;
    let charged = app.create("second", CHAT, 300, json!({})).await.expect(200);
    let charged = charged.text("/reservation_id").to_owned();
    app.commit(&charged, "c1", 300).await.expect(200);
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let path = format!("/console/reservations/{held}");
    let page = reader.get(&path).await;
    assert!(
        page.has("500 tokens") && page.has("gpt-4o-mini") && page.has("A release gives back"),
        "{}",
        page.text
    );
    let (key, again) = (page.field("key"), "/console/reservations/r000_none");
    let form = [
        ("key", key.as_str()),
        ("change", "release"),
        ("reason", "stuck"),
    ];
    for _ in 0..2 {
        let done = reader.post(&path, &form).await;
        assert_eq!(
            done.header(header::LOCATION),
            format!("{path}?done=release"),
            "{}",
            done.text
        );
    }
    let path = format!("/console/reservations/{charged}");
    let form = [
        ("key", "k1"),
        ("change", "refund"),
        ("unit", "TOKENS"),
        ("amount", "1,000"),
        ("reason", "wrong"),
    ];
    let refused = reader.post(&path, &form).await;
    assert!(refused.has("role=\"alert\""), "{}", refused.text);
    let form = [
        ("key", "k2"),
        ("change", "refund"),
        ("unit", "TOKENS"),
        ("amount", "100"),
        ("reason", "wrong"),
    ];
    assert_eq!(
        reader.post(&path, &form).await.status,
        StatusCode::SEE_OTHER
    );
    assert!(
        reader
            .get(&path)
            .await
            .has("<li>100 tokens refunded since</li>")
    );
    assert_eq!(app.figures(CHAT).await, (1_800, 0, 200, 0));
    assert_eq!(
        reader.post_from("cross-site", &path, &form).await.status,
        StatusCode::FORBIDDEN
    );
    assert!(reader.get(again).await.status.is_client_error());
}

#[tokio::test]
async fn the_lists_are_for_those_who_may_read_them() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 100, 0).await;
    app.post_event("e1", CHAT, 100, json!({})).await.expect(201);
    let body = json!({"tenant_id": "acme", "name": "quick", "scope_pattern": "tenant:acme/app:*"});
    app.post_as_admin("/v1/admin/policies", body)
        .await
        .expect(201);
    let operator = Reader::with_key(&app, ADMIN_KEY).await;
    let permissions = " admin:read events:read webhooks:read reservations:list ";
    let key = app.add_key(0, &[("permissions", permissions)]).await;
    let tenant = Reader::with_key(&app, &key).await;
    for (list, text) in [
        ("events", "budget.exhausted"),
        ("audit", "createPolicy"),
        ("webhooks", "No webhook."),
        ("keys", "<h1>API keys</h1>"),
        ("reservations", "COMMITTED\">committed</option>"),
        ("charges", "100 tokens</td>"),
        ("policies", "quick <small>pol_"),
    ] {
        let path = format!("/console/{list}?tenant=acme");
        let page = operator.get(&path).await;
        assert_eq!(page.status, StatusCode::OK, "{list}: {}", page.text);
        assert!(page.has(text), "{list}: {}", page.text);
        let page = tenant.get(&path).await;
        match list {
            "audit" | "keys" => assert_eq!(page.status, StatusCode::NOT_FOUND),
            _ => assert!(page.has(text), "{list}: {}", page.text),
        }
    }
    let audited = operator.get("/console/audit").await;
    assert!(!audited.has("listPolicies"), "{}", audited.text);
    assert!(
        operator
            .get("/console/policies")
            .await
            .has("Enter a tenant.")
    );
    assert_eq!(operator.get("/console").await.status, StatusCode::OK);
    let after = operator.get("/console/audit").await;
    let entries = |text: &str| text.matches("<tr>").count();
    assert_eq!(
        entries(&after.text),
        entries(&audited.text),
        "pages that are read leave no entries"
    );
}

#[tokio::test]
async fn a_usage_event_is_found_and_refunded() {
    let app = TestApp::spawn().await;
    app.budget(CHAT, 2_000, 0).await;
    let event = app.post_event("e1", CHAT, 300, json!({})).await.expect(201);
    let path = format!("/console/charges/{}", event.text("/event_id"));
    let reader = Reader::with_key(&app, ADMIN_KEY).await;
    let list = reader.get("/console/charges?tenant=acme&app=chat").await;
    assert!(list.has(&path) && list.has("300 tokens"), "{}", list.text);
    let page = reader.get(&path).await;
    let key = page.field("key");
    let mut form = [
        ("key", key.as_str()),
        ("unit", "TOKENS"),
        ("amount", "0.1"),
        ("reason", "twice"),
    ];
    let refused = reader.post(&path, &form).await;
    assert!(refused.has("amount is not exact"), "{}", refused.text);
    form[2].1 = "120 tokens";
    for _ in 0..2 {
        let done = reader.post(&path, &form).await;
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
    }
    assert!(
        reader
            .get(&path)
            .await
            .has("<dt>refunded</dt><dd>120 tokens")
    );
    assert_eq!(app.figures(CHAT).await, (1_820, 0, 180, 0));
}

#[tokio::test]
async fn events_are_followed_by_a_part_of_the_page() {
    let app = TestApp::spawn().await;
    shop(&app).await;
    let mut reader = Reader::with_key(&app, ADMIN_KEY).await;
    let page = reader.get("/console/events?tenant=shop").await;
    assert!(!page.has("hx-get") && !page.has("htmx"), "{}", page.text);
    let page = reader.get("/console/events?tenant=shop&follow=1").await;
    assert!(
        page.has("hx-get=\"?follow=1&tenant=shop&\" hx-trigger=\"every 2s\" hx-select=\"#rows\"")
            && page.has("\"allowEval\":false"),
        "{}",
        page.text
    );
    let link = page
        .text
        .split('"')
        .find(|text| text.starts_with("/console/events/"));
    let event = reader.get(link.expect("an event")).await;
    assert!(
        event.has("As it is delivered") && event.has("&quot;event_type&quot;"),
        "{}",
        event.text
    );
    // Without a session, the script leaves the page.
    reader.cookie = None;
    let part = reader.part("/console/events?follow=1").await;
    let login = part.headers.get("hx-redirect").expect("a way to the login");
    assert_eq!(login, "/console/login?to=%2Fconsole%2Fevents%3Ffollow%3D1");
}

#[tokio::test]
async fn evidence_is_verified_and_shows_the_balances_then() {
    let mut attesting = EvidenceFixture::spawn(&[]).await;
    attesting.app.budget(CHAT, 2_000, 0).await;
    let id = attesting.app.held(CHAT, 500, json!({})).await;
    attesting.sign().await;
    let reader = Reader::with_key(&attesting.app, ADMIN_KEY).await;
    let page = reader.get(&format!("/console/reservations/{id}")).await;
    let link = page
        .text
        .split('"')
        .find(|text| text.starts_with("/console/evidence/"));
    let evidence = reader.get(link.expect("evidence")).await;
    assert!(
        evidence.has("<strong class=\"good\">authentic") && evidence.has("1,500 tokens"),
        "{}",
        evidence.text
    );
    let missing = reader
        .get(&format!("/console/evidence/{}", "0".repeat(64)))
        .await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn every_page_can_be_read_in_both_dialects() {
    for dialect in ["service", "cycles"] {
        let mut attesting = EvidenceFixture::spawn(&["--dialect", dialect]).await;
        let app = &attesting.app;
        app.budget(CHAT, 2_000, 0).await;
        let held = app.held(CHAT, 500, json!({})).await;
        let charged = app.held(CHAT, 500, json!({})).await;
        app.commit(&charged, "c1", 400).await.expect(200);
        assert_eq!(
            app.create("denied", CHAT, 5_000, json!({})).await.status,
            409
        );
        attesting.sign().await;
        let reader = Reader::with_key(&attesting.app, ADMIN_KEY).await;
        for path in [
            "",
            "/tenants",
            "/denials",
            "/usage?tenant=acme&group_by=agent,day",
            "/reservations?tenant=acme",
            "/charges?tenant=acme",
            "/events",
            "/webhooks",
            "/policies?tenant=acme",
            "/keys",
            "/audit",
            &format!("/reservations/{held}"),
            &format!("/reservations/{charged}"),
            BUDGET.trim_start_matches("/console"),
        ] {
            let page = reader.get(&format!("/console{path}")).await;
            assert_eq!(
                page.status,
                StatusCode::OK,
                "{dialect} {path}: {}",
                page.text
            );
        }
        let page = reader
            .get(&format!("/console/reservations/{charged}"))
            .await;
        let links = page.text.matches("/console/evidence/").count();
        assert_eq!(links, 2, "{}", page.text);
    }
}

#[tokio::test]
async fn a_page_costs_the_same_however_many_budgets_there_are() {
    let redis = RedisServer::start();
    let app = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    let reader = Reader::with_key(&app, &app.keys[0].clone()).await;
    let commands = || {
        let stats: String = redis.run(&["INFO", "commandstats"]);
        let calls = stats
            .lines()
            .filter(|line| !line.starts_with("cmdstat_info"));
        let calls = calls.filter_map(|line| line.split(['=', ',']).nth(1)?.parse::<u64>().ok());
        calls.sum::<u64>()
    };
    let mut costs = Vec::new();
    for numbers in [0..60, 60..300] {
        for number in numbers {
            app.budget(&format!("tenant:acme/agent:a{number:04}"), 100, 0)
                .await;
        }
        // The replica has calls of its own now and then: the least of five pages is without them.
        let mut least = u64::MAX;
        for _ in 0..5 {
            let before = commands();
            let page = reader.get("/console/tenants/acme").await;
            least = least.min(commands() - before);
            assert!(
                page.text.len() < 100_000 && page.has("agent:a0049"),
                "{}",
                page.text
            );
            let next = page.text.split('"').find(|text| text.contains("cursor="));
            let next = next.expect("a next page").replace("&amp;", "&");
            let page = reader.get(&format!("/console/tenants/acme{next}")).await;
            assert!(
                page.has("agent:a0050") && !page.has("agent:a0049"),
                "{}",
                page.text
            );
        }
        costs.push(least);
    }
    assert_eq!(costs[0], costs[1]);
    // The session, the key, the index, and a read for each of the 51 budgets, all in one pipeline.
    assert!(costs[0] < 60, "{costs:?}");
}
