//! A tenant fills Redis as fast as it can, in four ways. It is refused when memory gets short, and no request of another tenant
//! fails.

use std::cell::Cell;
use std::time::Duration;

use budget_authority::domain::amount::Unit;
use serde_json::json;

use crate::admin::http::BUDGETS;
use crate::admin::webhooks::guard::open;
use crate::admin::webhooks::subscriptions::HOOKS;
use crate::harness::app::TestApp;
use crate::harness::deliveries::RunningDispatcher;
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::RedisServer;
use crate::harness::response::Response;
use crate::harness::runtime_calls::{ask_body, tokens};

const HOSTILE: &str = "tenant:acme";
const OTHER: &str = "tenant:bolt";
const FUND: &str = "/v1/admin/budgets/fund?scope=tenant:acme&unit=TOKENS";

/// 9 MB are left until memory is short, and then 47 MB until creates of all tenants are refused: more than can be stored between two
/// looks at it.
const ROOM: (usize, usize) = (300, 224);
/// Less than 9 MB.
const SMALL_SHARE: [&str; 2] = ["--tenant-memory-share", "2"];

/// A service on a Redis of so many MB, of which so many are used.
async fn service((size, used): (usize, usize), settings: &[&str]) -> (RedisServer, TestApp) {
    let server = RedisServer::start_with(&["--maxmemory", &format!("{size}mb")]);
    // Redis makes it itself: a buffer for it would be freed in mid-test.
    let last = (used * 1_000_000).to_string();
    server.run::<()>(&["SETRANGE", "ballast", &last, "x"]);
    let settings = [["--requests-per-second", "0"].as_slice(), settings].concat();
    let app = TestApp::spawn_on(&server.url(), &settings).await;
    app.budget(HOSTILE, 1_000_000, 0).await;
    let (unit, allocated) = (Unit::Tokens, 1_000_000_000);
    app.seed(1, OTHER, unit, allocated, 0).await;
    (server, app)
}

/// One reservation of the other tenant with its commit.
async fn serve_other(app: &TestApp, number: usize) {
    let body = ask_body(&format!("other{number}"), OTHER, 1);
    let created = app.post_as(1, "/v1/reservations", &body).await.expect(200);
    let path = format!(
        "/v1/reservations/{}/commit",
        created.text("/reservation_id")
    );
    let body = json!({"idempotency_key": "c", "actual": tokens(1)});
    app.post_as(1, &path, &body).await.expect(200);
}

/// Attacks until this many requests were refused. Meanwhile the other tenant is served.
async fn attacked(app: &TestApp, refusals: usize, attack: impl AsyncFn(usize) -> Response) {
    let (number, refused, ended) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let attacker = async || {
        while refused.get() < refusals {
            number.set(number.get() + 1);
            let response = attack(number.get()).await;
            // On a fast machine as on a slow one.
            tokio::time::sleep(Duration::from_millis(10)).await;
            if response.status == 429 {
                let response = response.refused(429, "LIMIT_EXCEEDED");
                let message = response.text("/message");
                assert!(message.contains("BUDGET_TENANT_MEMORY_SHARE"), "{message}");
                refused.set(refused.get() + 1);
            } else {
                assert!(response.is_success(), "{response:?}");
            }
        }
        ended.set(ended.get() + 1);
    };
    let other = async {
        let mut served = 0;
        while ended.get() < 6 {
            serve_other(app, served).await;
            served += 1;
        }
        served
    };
    let (served, ..) = tokio::join!(
        other,
        attacker(),
        attacker(),
        attacker(),
        attacker(),
        attacker(),
        attacker()
    );
    assert!(served > 20, "{served}");
    let percent = app.store.fullest_share().percent();
    assert!((74..90).contains(&percent), "{percent} %");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_reservations_of_nothing() {
    let (_server, app) = service(ROOM, &SMALL_SHARE).await;
    let first = app.held(HOSTILE, 10, json!({})).await;
    let note = json!({"metadata": {"note": "x".repeat(1_500)}});
    let attack = async |number: usize| {
        let key = format!("hostile{number}");
        app.create(&key, HOSTILE, 0, note.clone()).await
    };
    attacked(&app, 300, attack).await;
    app.commit(&first, "c", 10).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_thresholds_that_are_crossed() {
    let (_server, app) = service(ROOM, &SMALL_SHARE).await;
    let record = app.store.keys().tenant(app.callers[0].partition, "acme");
    let thresholds = (1..=64).map(|number| (number * 10_000).to_string());
    let thresholds = thresholds.collect::<Vec<_>>().join(" ");
    app.set(&record, &[("thresholds", thresholds.as_str())])
        .await;
    app.held(HOSTILE, 9_000, json!({})).await;
    let attack = async |number: usize| {
        let allocated = if number.is_multiple_of(2) {
            10_000
        } else {
            1_000_000
        };
        let body = json!({"operation": "RESET", "amount": tokens(allocated)});
        app.post(FUND, body).await
    };
    attacked(&app, 30, attack).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_budgets_with_metadata() {
    let (_server, app) = service(ROOM, &SMALL_SHARE).await;
    let note = "x".repeat(16_000);
    let attack = async |number: usize| {
        let scope = format!("{HOSTILE}/app:a{number}");
        let budget = json!({"scope": scope, "unit": "TOKENS", "allocated": tokens(1), "metadata": {"note": note}});
        app.post(BUDGETS, budget).await
    };
    attacked(&app, 30, attack).await;
}

/// The open deliveries of the hostile tenant.
async fn open_deliveries(app: &TestApp) -> i64 {
    let open = app.store.keys().open_deliveries(app.callers[0].partition);
    let open: Option<i64> = app.run(&["HGET", &open, "acme"]).await;
    open.unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_deliveries_to_a_dead_receiver() {
    // What the deliveries could take is more than Redis has: 40 MB.
    const SUBSCRIPTIONS: usize = 60;
    let share = ["--tenant-memory-share", "10"];
    let (server, app) = service((48, 26), &share).await;
    open(&app).await;
    let dead = Receiver::start(Reply::Silence).await;
    let alive = Receiver::start(Reply::Status(200, "")).await;
    let mut ids = Vec::new();
    for (tenant, count, url) in [
        ("acme", SUBSCRIPTIONS, dead.url("/")),
        ("bolt", 1, alive.url("/")),
    ] {
        for _ in 0..count {
            let hook = json!({"url": url, "event_types": ["budget.funded"]});
            let path = format!("{HOOKS}?tenant_id={tenant}");
            let made = app.post_as_admin(&path, hook).await.expect(201);
            ids.push(made.text("/subscription/subscription_id").to_owned());
        }
    }
    let _running = RunningDispatcher::over_with(&server.url(), &app, 1, 64, &share);
    let fund = "/v1/admin/budgets/fund?scope=tenant:bolt&unit=TOKENS&tenant_id=bolt";
    let credit = json!({"operation": "CREDIT", "amount": tokens(1)});
    let mut events = 0;
    while events < 700 {
        let response = app.post(FUND, credit.clone()).await;
        if response.status == 429 {
            break;
        }
        response.expect(200);
        events += 1;
    }
    let stopped = eventually("its deliveries wait", || async {
        let before = open_deliveries(&app).await;
        for number in 0..20 {
            serve_other(&app, rand::random::<u32>() as usize + number).await;
        }
        app.post_as_admin(fund, credit.clone()).await.expect(200);
        // Longer than the pause between two looks at what is behind, also if the machine stalls.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let open = open_deliveries(&app).await;
        (open > 1_000 && open == before).then_some(open).ok_or(open)
    })
    .await;
    let (keys, partition) = (app.store.keys(), app.callers[0].partition);
    let behind: Vec<String> = app
        .run(&["ZRANGE", &keys.behind(partition), "0", "-1"])
        .await;
    // A few may have caught up in the room between two looks at memory.
    assert!(
        behind.len() > SUBSCRIPTIONS / 2,
        "{} with {stopped} open deliveries",
        behind.len()
    );
    for id in &ids[..SUBSCRIPTIONS] {
        let queued: Option<usize> = app
            .run(&["HGET", &keys.window(partition, id), "queued"])
            .await;
        assert!(behind.contains(id) || queued == Some(events), "{queued:?}");
    }
    let percent = app.store.fullest_share().percent();
    assert!((74..90).contains(&percent), "{percent} %");
    eventually("others get their events", || async {
        let arrived = alive.arrived().len();
        (arrived > 0).then_some(()).ok_or(arrived)
    })
    .await;
}
