//! Events over HTTP: every filter, sort and page against a plain model of what the logs hold.

mod bounds;
mod completeness;
mod fixture;
mod rules;

use std::time::Duration;

use budget_authority::dispatcher::{self as dispatch, Settings};
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::seal::SealingKeys;
use budget_authority::shutdown::Shutdown;
use budget_authority::telemetry::Telemetry;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::block_in_place;
use tokio::time::Instant;

use crate::harness::app::{TestApp, config};
use crate::harness::event_log::follow;
use crate::harness::eventually;
use crate::harness::redis::{RedisCluster, shared};
use fixture::{EVENTS, EventsFixture, rows, text};

/// The events that a query must return.
fn expected(model: &[Value], filters: &[(&str, &str)], sort: &str, descending: bool) -> Vec<Value> {
    let passes = |event: &&Value| {
        filters.iter().all(|(name, wanted)| match *name {
            "scope" => text(event, "scope").starts_with(wanted),
            "from" => text(event, "timestamp") >= *wanted,
            "to" => text(event, "timestamp") <= *wanted,
            "search" => ["scope", "correlation_id"].iter().any(|name| {
                text(event, name)
                    .to_lowercase()
                    .contains(&wanted.to_lowercase())
            }),
            name => text(event, name) == *wanted,
        })
    };
    let mut events: Vec<Value> = model.iter().filter(passes).cloned().collect();
    if sort != "timestamp" {
        events.sort_by_key(|event| {
            let value = text(event, sort).to_owned();
            (value.is_empty(), value, text(event, "event_id").to_owned())
        });
    }
    if descending {
        events.reverse();
    }
    events
}

fn query_of(filters: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in filters {
        query.append_pair(name, value);
    }
    query.finish()
}

/// Filters whose values occur in the model.
fn battery(model: &[Value]) -> Vec<Vec<(&'static str, String)>> {
    let of = |event_type: &str, name: &str| {
        let event = model
            .iter()
            .find(|event| text(event, "event_type") == event_type);
        text(event.expect("such an event"), name).to_owned()
    };
    let hash = of("budget.debt_incurred", "correlation_id");
    assert!(hash.starts_with("runtime:"), "{hash}");
    let middle = text(&model[model.len() / 2], "timestamp").to_owned();
    let some = |name: &'static str, value: &str| vec![(name, value.to_owned())];
    let both = |a: Vec<(&'static str, String)>, b: Vec<(&'static str, String)>| [a, b].concat();
    vec![
        Vec::new(),
        some("event_type", "policy.created"),
        some("event_type", "custom.of_others"),
        some("category", "budget"),
        some("category", "webhook"),
        some("category", "system"),
        both(
            some("category", "tenant"),
            some("event_type", "tenant.updated"),
        ),
        both(
            some("category", "tenant"),
            some("event_type", "policy.created"),
        ),
        some("scope", "tenant:beta"),
        some("scope", "tenant:beta/"),
        some("scope", "tenant:alpha/agent:a1"),
        some("scope", "Tenant:alpha"),
        some("correlation_id", &hash),
        some("correlation_id", "tenant_bulk_action:Suspend:req_1_2"),
        some("correlation_id", "nothing of ours"),
        both(some("correlation_id", &hash), some("category", "policy")),
        some("trace_id", &of("policy.created", "trace_id")),
        some("request_id", "req_2_1"),
        both(
            some("request_id", "req_2_1"),
            some("event_type", "policy.created"),
        ),
        some("from", &middle),
        some("to", &middle),
        both(some("from", &middle), some("to", &middle)),
        both(some("from", &middle), some("category", "policy")),
        some("search", "BULK_ACTION:suspend:REQ_1"),
        some("search", "agent:A3"),
        some("search", "runtime:"),
    ]
}

async fn check(fixture: &EventsFixture, tenant: Option<&str>, sort: &str, limits: &[usize]) {
    let model = fixture.model().await;
    for filters in battery(&model) {
        let mut filters: Vec<_> = filters.iter().map(|(n, v)| (*n, v.as_str())).collect();
        filters.extend(tenant.map(|tenant| ("tenant_id", tenant)));
        for descending in [true, false] {
            let wanted = expected(&model, &filters, sort, descending);
            for limit in limits {
                let direction = if descending { "desc" } else { "asc" };
                let query = query_of(&filters);
                let query = format!("{query}&sort_by={sort}&sort_dir={direction}&limit={limit}");
                let found = fixture.walk(false, &query).await;
                assert_eq!(found.len(), wanted.len(), "{query}");
                assert_eq!(found, wanted, "{query}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_all_tenants_every_filter_pages_its_matches_in_order_of_time() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    follow(&fixture.app.store).await;
    check(&fixture, None, "timestamp", &[7, 100]).await;
    let page = fixture.admin("limit=1").await;
    let as_of = page.header("x-service-as-of").expect("a time");
    assert!(as_of > page.text("/events/0/timestamp"), "{as_of}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_all_tenants_every_sort_has_its_order_both_ways() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    follow(&fixture.app.store).await;
    for sort in ["event_type", "category", "scope", "tenant_id"] {
        check(&fixture, None, sort, &[60]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_one_tenant_every_filter_and_sort_is_current() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    // Half of it is in the view, half is not: the lists are the same.
    follow(&fixture.app.store).await;
    fixture.emit_more().await;
    check(&fixture, Some("alpha"), "timestamp", &[5, 100]).await;
    for sort in ["event_type", "scope"] {
        check(&fixture, Some("beta"), sort, &[9]).await;
    }
    assert_eq!(
        fixture
            .admin("tenant_id=alpha")
            .await
            .header("x-service-as-of"),
        None
    );
    for unknown in ["gamma", "ALPHA", "__admin__", "x"] {
        let page = fixture.admin(&format!("tenant_id={unknown}")).await;
        assert!(rows(&page).is_empty(), "{unknown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_sees_its_own_events_of_its_categories_newest_first() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    follow(&fixture.app.store).await;
    fixture.emit_more().await;
    let model: Vec<Value> = fixture.model().await;
    let visible =
        |event: &Value| ["budget", "reservation", "tenant"].contains(&text(event, "category"));
    let model: Vec<Value> = model.into_iter().filter(visible).collect();
    for filters in battery(&[&fixture.model().await[..], &model].concat()) {
        let filters: Vec<_> = filters.iter().map(|(n, v)| (*n, v.as_str())).collect();
        // Forbidden filters are refused, and unknown ones are ignored.
        let filter_of = |name: &str| {
            filters
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| *value)
        };
        let foreign = |value: Option<&str>| {
            value.is_some_and(|value| {
                !["budget", "reservation", "tenant"]
                    .contains(&value.split('.').next().unwrap_or(value))
            })
        };
        if foreign(filter_of("category")) || foreign(filter_of("event_type")) {
            let refused = fixture.own(&query_of(&filters)).await;
            assert_eq!(refused.error(), (400, "INVALID_REQUEST"), "{filters:?}");
            continue;
        }
        let ignored = ["search", "trace_id", "request_id"];
        let counting: Vec<_> = filters
            .iter()
            .filter(|(name, _)| !ignored.contains(name))
            .copied()
            .collect();
        let mut wanted = counting.clone();
        wanted.push(("tenant_id", "alpha"));
        let wanted = expected(&model, &wanted, "timestamp", true);
        for limit in [4, 100] {
            let query = format!(
                "{}&limit={limit}&sort_by=scope&sort_dir=asc",
                query_of(&filters)
            );
            assert_eq!(fixture.walk(true, &query).await, wanted, "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_found_by_its_id_alone_and_has_the_same_bytes_everywhere() {
    let mut fixture = EventsFixture::new().await;
    fixture.emit_many().await;
    let model = fixture.model().await;
    for event in &model {
        let found = fixture
            .app
            .get_as_admin(&format!("{EVENTS}/{}", text(event, "event_id")))
            .await;
        assert_eq!((found.status, &found.body), (200, event));
    }
    let known = text(&model[0], "event_id");
    for unknown in [
        "evt_1",
        "evt_000_AAAAAAAAAAAAAAAA_1-1",
        &format!("{known}0"),
        &known.replace("evt_", "EVT_"),
        &format!("{known}-0"),
        "%20",
    ] {
        let response = fixture
            .app
            .get_as_admin(&format!("{EVENTS}/{unknown}"))
            .await;
        assert_eq!(response.error(), (404, "EVENT_NOT_FOUND"), "{unknown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_lists_are_the_same() {
    let cluster = block_in_place(RedisCluster::start);
    let mut fixture = EventsFixture::on(&cluster.url()).await;
    fixture.emit_many().await;
    follow(&fixture.app.store).await;
    check(&fixture, None, "timestamp", &[40]).await;
    check(&fixture, Some("beta"), "timestamp", &[10]).await;
    check(&fixture, None, "tenant_id", &[100]).await;
    let model = fixture.model().await;
    for event in model.iter().take(20) {
        let found = fixture
            .app
            .get_as_admin(&format!("{EVENTS}/{}", text(event, "event_id")))
            .await;
        assert_eq!(&found.body, event);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_dispatcher_a_list_over_all_tenants_is_about_a_second_behind() {
    let app = TestApp::spawn().await;
    let (telemetry, shutdown) = (Telemetry::new().expect("distinct names"), Shutdown::new());
    let config = config(&shared().url(), &[]);
    let store = &app.store;
    let settings = Settings {
        dialect: Dialect::Service,
        retention: config.retention,
        secrets: SealingKeys::default(),
        egress: config.webhooks.egress(),
        in_flight: 8,
        lane_concurrency: 1,
        host_rate: 0,
        metrics_tenants: budget_authority::config::TenantList::default(),
        evidence: None,
    };
    let dispatcher = dispatch::start(store, settings, &telemetry, &shutdown).expect("it starts");
    eventually("all partitions are followed", || async {
        let page = app.get_as_admin(EVENTS).await;
        (page.header("x-service-as-of")? > "2000").then_some(())
    })
    .await;
    let mut fastest = Duration::MAX;
    for number in 0..3 {
        let made = Instant::now();
        let body = json!({"tenant_id": format!("tenant-{number}"), "name": "n"});
        app.as_admin(Method::POST, "/v1/admin/tenants", &body).await;
        eventually("it is shown", || async {
            let page = app.get_as_admin(EVENTS).await;
            rows(&page).len() == number + 1
        })
        .await;
        fastest = fastest.min(made.elapsed());
    }
    // Half a second to the next look; the rest is for a busy machine.
    assert!(fastest < Duration::from_secs(4), "{fastest:?}");
    let metrics = telemetry.render().expect("metrics");
    let lag = metrics
        .lines()
        .find_map(|line| line.strip_prefix("budget_view_lag_seconds{view=\"events\"} "));
    let lag: f64 = lag.and_then(|lag| lag.parse().ok()).expect("the lag");
    assert!((0.0..20.0).contains(&lag), "{lag}");
    shutdown.begin();
    dispatcher.finished(Duration::from_secs(20)).await;
}
