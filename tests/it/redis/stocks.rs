//! What the data of a tenant takes in Redis: measured within 10 %, shown by `keys sizes`, and the limit while memory is short.

use std::time::Duration;

use budget_authority::domain::ids::TenantId;
use budget_authority::store::Stock;
use budget_authority::tools::keys::stocks;
use reqwest::Method;
use serde_json::{Value, json};

use super::memory::{filled, service};
use crate::admin::http::{BUDGETS, KEYS, key, umbra_on};
use crate::admin::webhooks::subscriptions::{HOOKS, URL, made};
use crate::dispatcher::fan_out::{fan_out, follow, fund};
use crate::dispatcher::retention::{retention_after, run};
use crate::evidence::fixture::EvidenceFixture;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::audit_chain::seal_everything;
use crate::harness::receiver::public_names;
use crate::harness::redis::RedisServer;
use crate::harness::runtime_calls::{ask_body, event_body, tokens, with};
use crate::harness::{event_log, eventually};

const POLICIES: &str = "/v1/admin/policies";

/// The keys of each kind, without prefix and partition.
const KINDS: &[(&str, &[&str])] = &[
    ("api_keys", &["apikey:*", "apikeys:umbra"]),
    ("audit", &["audit:umbra:*", "seals:umbra:*"]),
    ("budgets", &["budget:umbra:*", "budgets:umbra"]),
    ("deliveries", &["delivery:*", "deliveries:*"]),
    ("events", &["events:umbra:*"]),
    ("policies", &["policy:*", "policies:umbra"]),
    ("reservations", &["rsv:*", "rsvs:umbra:*", "due:umbra*"]),
    ("short_lived", &["decision:*", "idem:umbra:*"]),
    ("usage", &["usage:umbra:*", "usage_month:umbra:*"]),
    ("usage_events", &["usage_event:*", "usage_events:umbra:*"]),
    ("webhooks", &["webhook:*", "webhooks:umbra"]),
];

/// Asserts that each kind was measured within 10 % of what its keys take.
fn assert_measured(server: &RedisServer, prefix: &str, stock: &Stock) {
    for (kind, patterns) in KINDS {
        let keys = patterns.iter().flat_map(|pattern| {
            let pattern = format!("{prefix}{pattern}");
            server.run::<Vec<String>>(&["KEYS", &pattern])
        });
        let usage = |key: String| server.run::<i64>(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]);
        let present: i64 = keys.map(usage).sum();
        let measured = stock.0.get(kind).copied().unwrap_or(0);
        assert!(present > 0, "{kind}");
        let off = measured.abs_diff(present) as f64 / present as f64;
        assert!(off <= 0.1, "{kind}: {measured} measured of {present}");
    }
}

/// Asserts that a kind of the first tenant is measured within 10 % of what these keys take; returns how much that is.
async fn assert_close(app: &TestApp, keys: &[String], kind: &str) -> i64 {
    let mut present = 0;
    for key in keys {
        let usage = ["MEMORY", "USAGE", key, "SAMPLES", "0"];
        present += app.run::<i64>(&usage).await;
    }
    let stock = app.store.stock_of(&app.callers[0].tenant).await;
    let measured = stock.expect("Redis answers").0[kind];
    let off = measured.abs_diff(present) as f64 / present as f64;
    assert!(off <= 0.1, "{kind}: {measured} measured of {present}");
    measured
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_is_measured_within_ten_percent_after_creates_growth_and_retention() {
    let server = RedisServer::start();
    let app = TestApp::spawn_reaching_on(&server.url(), public_names(), &[]).await;
    let app = umbra_on(app).await;
    let tenant = TenantId::parse("umbra").expect("an id");
    let partition = tenant.partition();
    let prefix = format!("{}:{{{partition}}}:", app.store.keys().prefix());
    let (_, secret) = key(&app, &["reservations:create", "reservations:commit"]).await;
    let post = async |path: &str, body: Value| app.post_with(&secret, path, &body).await;
    let note = |size: usize| json!({"metadata": {"note": "x".repeat(size)}});
    let change = async |path: &str, key: &str, body: Value| {
        let request = app.request(Method::POST, path).json(&body);
        let request = request.header("X-Admin-API-Key", ADMIN_KEY);
        app.send(request.header("X-Idempotency-Key", key)).await
    };

    let fan_out = fan_out(&app);
    let mut hooks = Vec::new();
    for _ in 0..3 {
        hooks.push(made(&app, json!({"url": URL, "event_types": ["budget.funded"]})).await);
    }
    follow(&fan_out).await;
    fund(&app, 40).await;
    follow(&fan_out).await;
    let mut held = Vec::new();
    for number in 0..300 {
        let body = ask_body(&format!("r{number}"), "tenant:umbra", 0);
        let size = if number % 3 == 0 { 900 } else { 20 };
        let created = post("/v1/reservations", with(body, note(size))).await;
        held.push(created.expect(200).text("/reservation_id").to_owned());
    }
    for number in 0..60 {
        let key = format!("n{number}");
        let event = with(event_body(&key, "tenant:umbra", 0), note(20 * number));
        post("/v1/events", event).await.expect(201);
        let decision = ask_body(&key, "tenant:umbra", 0);
        post("/v1/decide", decision).await.expect(200);
        let (scope, size) = (format!("tenant:umbra/app:a{number}"), 200 * number);
        let budget =
            json!({"tenant_id": "umbra", "scope": scope, "unit": "TOKENS", "allocated": tokens(1)});
        let key = format!("budget-{number:012}");
        change(BUDGETS, &key, with(budget, note(size)))
            .await
            .expect(201);
        let policy = json!({"tenant_id": "umbra", "name": key, "scope_pattern": scope});
        app.post_as_admin(POLICIES, policy).await.expect(201);
        let made = json!({"tenant_id": "umbra", "name": key});
        app.post_as_admin(KEYS, made).await.expect(201);
    }
    let stock = app.store.stock_of(&tenant).await.expect("Redis answers");
    assert_measured(&server, &prefix, &stock);
    let created = stock.0["reservations"];

    for (number, id) in held.iter().take(200).enumerate() {
        let path = format!("/v1/reservations/{id}/commit");
        let body = json!({"idempotency_key": format!("c{number}"), "actual": tokens(0)});
        post(&path, with(body, note(600))).await.expect(200);
    }
    let stock = app.store.stock_of(&tenant).await.expect("Redis answers");
    assert_measured(&server, &prefix, &stock);
    let grown = stock.0["reservations"];
    assert!(grown > created, "{grown} after {created}");

    let lease = app.lease_of(partition, "d", Duration::from_secs(60)).await;
    let purged = run(&retention_after(&app.store, Duration::ZERO), lease).await;
    assert_eq!(purged.reservations, 200, "{purged:?}");
    let stock = app.store.stock_of(&tenant).await.expect("Redis answers");
    assert_measured(&server, &prefix, &stock);
    assert!(stock.0["reservations"] < grown, "{stock:?}");

    // The deliveries of a deleted subscription stay.
    let path = format!("{HOOKS}/{}", hooks[0]);
    let deleted = app.as_admin(Method::DELETE, &path, &Value::Null).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    let stock = app.store.stock_of(&tenant).await.expect("Redis answers");
    assert_measured(&server, &prefix, &stock);

    let all = stocks(&app.store).await.expect("Redis answers");
    assert_eq!(all.tenants.len(), 1, "{all:?}");
    assert_eq!(all.tenants[0].bytes, all.tenants[0].kinds.bytes());
    let text = all.text(false);
    assert!(
        text.starts_with("TENANT") && text.contains("\numbra"),
        "{text}"
    );
    assert!(text.contains("reservations ") && all.text(true).contains("\"umbra\""));
}

#[tokio::test]
async fn records_of_each_day_are_measured_by_a_sample_of_that_day() {
    let app = TestApp::spawn().await;
    let (keys, tenant) = (app.store.keys(), &app.callers[0].tenant);
    let (partition, today) = (tenant.partition(), app.store.today());
    let mut written = Vec::new();
    for ago in 0..=20 {
        let day = today.plus(-ago);
        let (count, size) = if ago == 0 { (1_000, 20) } else { (1, 20_000) };
        let index = keys.reservations(partition, "acme", day);
        let registered = format!("acme:{day}");
        app.run::<i64>(&["ZADD", &keys.days(partition), "9e15", &registered])
            .await;
        for number in 0..count {
            let id = format!("{day}-{number}");
            let record = keys.reservation(partition, &id);
            app.run::<i64>(&["HSET", &record, "note", &"x".repeat(size)])
                .await;
            app.run::<i64>(&["ZADD", &index, "1", &id]).await;
            written.push(record);
        }
        written.push(index);
    }
    assert_close(&app, &written, "reservations").await;
}

#[tokio::test]
async fn rows_in_the_views_over_all_tenants_count_for_their_tenant() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let fund = "/v1/admin/budgets/fund?scope=tenant:acme&unit=TOKENS&tenant_id=acme";
    let credit = json!({"operation": "CREDIT", "amount": tokens(1)});
    for _ in 0..300 {
        app.post_as_admin(fund, credit.clone()).await.expect(200);
    }
    event_log::follow(&app.store).await;
    seal_everything(&app.store).await;
    let rows = format!("{}:{{all}}:*", app.store.keys().prefix());
    let rows: Vec<String> = app.run(&["KEYS", &rows]).await;
    assert_close(&app, &rows, "views").await;
}

#[tokio::test]
async fn envelopes_of_evidence_count_for_their_tenant_until_they_go() {
    let mut issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget("tenant:acme", 1_000, 0).await;
    for number in 0..30 {
        let app = &issued.app;
        let key = format!("k{number}");
        let held = app.reserve(&key, 1).await.expect(200);
        let id = held.text("/reservation_id");
        app.commit(id, "c", 1).await.expect(200);
        app.decide(&key, "tenant:acme", 1).await.expect(200);
        app.reserve(&format!("{key} more"), 5_000)
            .await
            .refused(409, "BUDGET_EXCEEDED");
    }
    issued.sign().await;
    let envelopes = issued.envelopes().await;
    assert_eq!(envelopes.len(), 120);
    let measured = assert_close(&issued.app, &envelopes, "evidence").await;
    let (app, other) = (&issued.app, &issued.app.callers[1].tenant);
    let of_other = app.store.stock_of(other).await.expect("Redis answers");
    assert_eq!(of_other.0["evidence"], 0);

    // Those whose time is over do not count, and leave with the next one of another day.
    let tenant = app.callers[0].tenant.clone();
    let counts = app.store.keys().envelopes(tenant.partition(), "acme");
    let days: Vec<String> = app.run(&["HKEYS", &counts]).await;
    assert_eq!(days.len(), 1);
    let more = ["HSET", &counts, "20200101", "1000000", "never", "500"];
    app.run::<i64>(&more).await;
    let stock = app.store.stock_of(&tenant).await.expect("Redis answers");
    assert_eq!(stock.0["evidence"], measured + 500);
    app.run::<i64>(&["HDEL", &counts, &days[0]]).await;
    app.reserve("last", 1).await.expect(200);
    assert_eq!(issued.sign().await.signed, 1);
    let mut left: Vec<String> = issued.app.run(&["HKEYS", &counts]).await;
    left.sort();
    assert_eq!(left, [days[0].as_str(), "never"]);
}

#[tokio::test]
async fn a_tenant_above_its_share_may_end_repeat_and_delete_but_store_nothing_new() {
    let (server, app) = service(&["--tenant-memory-share", "1"]).await;
    let id = app.held("tenant:acme", 10, json!({})).await;
    let text = "x".repeat(15_000);
    for number in 0..60 {
        let metadata = json!({"metadata": {"note": text}});
        let key = format!("large{number}");
        app.create(&key, "tenant:acme", 1, metadata)
            .await
            .expect(200);
    }
    // Its share will be about 450 KB.
    filled(&server, &app, 50).await;
    app.reserve("enough", 1).await.expect(200);
    filled(&server, &app, 80).await;
    let created = async || {
        app.reserve(&format!("{:x}", rand::random::<u64>()), 1)
            .await
    };
    let response = eventually("the tenant is measured", || async {
        let response = created().await;
        if response.status == 429 {
            Ok(response)
        } else {
            Err(response)
        }
    })
    .await
    .refused(429, "LIMIT_EXCEEDED");
    assert_eq!(response.header("retry-after"), Some("60"));
    let figure = |name: &str| response.at(name).as_i64().expect("a number");
    let (limit, present) = (figure("/details/limit"), figure("/details/present"));
    assert!(limit > 300_000 && present > limit, "{response:?}");
    for word in ["BUDGET_TENANT_MEMORY_SHARE", "retention"] {
        assert!(response.text("/message").contains(word), "{response:?}");
    }
    for refused in [
        app.post_event("e", "tenant:acme", 1, json!({})).await,
        app.decide("d", "tenant:acme", 1).await,
        app.dry_run("dry", "tenant:acme", 1).await,
        app.post(BUDGETS, json!({})).await,
    ] {
        refused.refused(429, "LIMIT_EXCEEDED");
    }
    // What it is refused is only counted.
    let keys = app.store.keys();
    let log = |day| keys.audit(app.callers[0].partition, "acme", day);
    let audited = async || app.log_entries(log).await.len();
    let before = audited().await;
    for _ in 0..3 {
        app.get("/v1/admin/budgets?unit=none")
            .await
            .refused(400, "INVALID_REQUEST");
    }
    assert_eq!(audited().await, before);
    // A wrong key learns nothing.
    let body = ask_body("k", "tenant:acme", 1);
    let wrong = app.keys[0].clone() + "x";
    let unknown = app.post_with(&wrong, "/v1/reservations", &body).await;
    assert_eq!(unknown.status, 401, "{unknown:?}");

    app.reserve("enough", 1).await.expect(200);
    app.extend(&id, "x", 1_000).await.expect(200);
    app.commit(&id, "c", 5).await.expect(200);
    app.get("/v1/reservations?tenant=acme").await.expect(200);
    let budget = json!({"tenant_id": "acme", "scope": "tenant:acme/app:a", "unit": "TOKENS", "allocated": tokens(1)});
    app.post_as_admin(BUDGETS, budget).await.expect(201);
    let text = app.telemetry.render().expect("metrics");
    let line = "budget_limit_refusals_total{limit=\"BUDGET_TENANT_MEMORY_SHARE\"} ";
    assert!(text.contains(line), "{text}");
    let largest = text
        .lines()
        .find_map(|line| line.strip_prefix("budget_largest_tenant_stock_bytes "));
    let largest: i64 = largest.expect("the metric").parse().expect("a number");
    assert!(largest > limit, "{largest}");

    filled(&server, &app, 50).await;
    created().await.expect(200);
}
