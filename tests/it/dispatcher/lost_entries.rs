//! An outbox that lost the entry of the fan-out's cursor in a failover is followed again from before that entry.

use budget_authority::store::Day;
use reqwest::Method;
use serde_json::{Value, json};

use super::fan_out::{fan_out, follow, fund, leases};
use crate::admin::http::umbra_on;
use crate::admin::webhooks::subscriptions::{URL, hooked, made};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::behind::{SubscriptionFixture, umbra};
use crate::harness::days::{Entry, days_around};
use crate::harness::redis_fixture::RedisFixture;
use crate::harness::runtime_calls::tokens;

/// The last entry of the outbox is lost: the one that the cursor names.
async fn lose_last(app: &TestApp) {
    let outbox = app.store.keys().outbox(umbra());
    let last: Vec<(String, Vec<String>)> = app
        .run(&["XREVRANGE", &outbox, "+", "-", "COUNT", "1"])
        .await;
    app.run::<i64>(&["XDEL", &outbox, &last[0].0]).await;
}

/// The last but one is lost, and the last has a lower id: that of a clock that is behind.
async fn lose_last_but_one(app: &TestApp) {
    let outbox = app.store.keys().outbox(umbra());
    let mut entries: Vec<(String, Vec<String>)> = app.run(&["XRANGE", &outbox, "-", "+"]).await;
    let (_, last) = entries.pop().expect("an entry");
    entries.pop().expect("an entry");
    let (before, _) = entries.last().expect("an entry").clone();
    let (ms, sequence) = before.split_once('-').expect("an id");
    let next = sequence.parse::<u64>().expect("a number") + 1;
    entries.push((format!("{ms}-{next}"), last));
    app.run::<i64>(&["DEL", &outbox]).await;
    for (id, fields) in &entries {
        let fields = fields.iter().map(String::as_str);
        let words: Vec<&str> = ["XADD", &outbox, id].into_iter().chain(fields).collect();
        app.run::<String>(&words).await;
    }
}

/// A few passes, of which the last finds nothing more to do; how many deliveries were queued.
async fn follow_to_end(hooked: &SubscriptionFixture) -> i64 {
    let mut queued = 0;
    for _ in 0..20 {
        let pass = hooked.fan_out.run_once(&leases()).await;
        let pass = pass.expect("Redis answers");
        queued += pass.queued;
        if !pass.more && pass.queued == 0 {
            return queued;
        }
    }
    panic!("it goes round in circles");
}

#[tokio::test]
async fn a_lost_entry_behind_more_than_one_read_stops_nothing() {
    for hooked in [
        SubscriptionFixture::own().await,
        SubscriptionFixture::system().await,
    ] {
        let app = &hooked.app;
        fund(app, 130).await;
        follow(&hooked.fan_out).await;
        lose_last(app).await;
        fund(app, 1).await;
        assert_eq!(follow_to_end(&hooked).await, 1);
        hooked.expect_in_order(131).await;
        fund(app, 2).await;
        assert_eq!(follow_to_end(&hooked).await, 2);
        assert_eq!(follow(&fan_out(app)).await, 0);
        hooked.expect_in_order(133).await;
    }
}

#[tokio::test]
async fn w34_entries_with_lower_ids_than_a_lost_one_are_followed() {
    for is_within in [false, true] {
        for hooked in [
            SubscriptionFixture::own().await,
            SubscriptionFixture::system().await,
        ] {
            let app = &hooked.app;
            for _ in 0..3 {
                fund(app, 1).await;
                RedisFixture::on(app.store.clone()).next_ms().await;
            }
            follow(&hooked.fan_out).await;
            if is_within {
                stand_within(&hooked).await;
            }
            fund(app, 1).await;
            lose_last_but_one(app).await;
            assert_eq!(follow_to_end(&hooked).await, 1);
            fund(app, 1).await;
            assert_eq!(follow_to_end(&hooked).await, 1);
            assert_eq!(follow(&fan_out(app)).await, 0);
            hooked.expect_in_order(5).await;
        }
    }
}

/// The cursor is in the middle of its entry.
async fn stand_within(hooked: &SubscriptionFixture) {
    let fanned = hooked.app.store.keys().fanned(hooked.partition);
    let cursor: String = hooked.app.run(&["HGET", &fanned, &hooked.source]).await;
    let within = format!("{cursor} 0 {}", hooked.id);
    hooked
        .app
        .run::<i64>(&["HSET", &fanned, &hooked.source, &within])
        .await;
}

#[tokio::test]
async fn a_subscription_behind_a_lost_entry_gets_entries_with_lower_ids() {
    for mut hooked in [
        SubscriptionFixture::own().await,
        SubscriptionFixture::system().await,
    ] {
        for _ in 0..3 {
            fund(&hooked.app, 1).await;
            RedisFixture::on(hooked.app.store.clone()).next_ms().await;
        }
        follow(&hooked.fan_out).await;
        fund(&hooked.app, 1).await;
        lose_last_but_one(&hooked.app).await;
        hooked.let_open(1_000).await;
        assert_eq!(follow_to_end(&hooked).await, 0);
        assert!(hooked.is_behind().await);
        hooked.let_open(3).await;
        assert_eq!(hooked.catch_up().await, 1);
        hooked.expect_in_order(4).await;
        assert!(!hooked.is_behind().await);
    }
}

#[tokio::test]
async fn events_of_different_traces_do_not_share_an_entry_after_a_loss() {
    let app = umbra_on(TestApp::spawn().await).await;
    let keys = app.store.keys();
    let log = |day| keys.events(umbra(), "umbra", day);
    let outbox = keys.outbox(umbra());
    for bits in [0_u16, 0x1234, 0xffff, 7] {
        // Redis has lost what was before: only the millisecond could distinguish the entries.
        for stream in days_around(&app.store).map(log).iter().chain([&outbox]) {
            app.run::<i64>(&["DEL", stream]).await;
        }
        let trace = format!("0123456789abcdef0123456789ab{bits:04x}");
        let headers = [
            ("X-Admin-API-Key", ADMIN_KEY),
            ("X-Service-Trace-Id", trace.as_str()),
        ];
        let path = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
        let body = json!({"operation": "CREDIT", "amount": tokens(1)});
        app.call(Method::POST, path, &headers, &body)
            .await
            .expect(200);
        let pointers: Vec<Entry> = app.run(&["XRANGE", &outbox, "-", "+"]).await;
        for entries in [app.log_entries(log).await, pointers] {
            let [(entry, _)] = &entries[..] else {
                panic!("{entries:?}")
            };
            assert!(entry.ends_with(&format!("-{bits}")), "{entries:?}");
        }
    }
}

/// The clock may move on during an operation. An entry that Redis numbers then has the number of any other trace.
#[tokio::test]
async fn the_events_of_one_operation_have_successive_entries() {
    let app = hooked().await;
    for shares in 0..3 {
        let shares: Vec<f64> = (1..=20)
            .map(|at| f64::from(20 * shares + at) / 100.0)
            .collect();
        let body = json!({"url": URL, "event_types": ["budget.threshold_crossed"],
            "thresholds": {"budget_utilization": shares}});
        made(&app, body).await;
    }
    let path = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
    let fund = async |body: Value| app.post_as_admin(path, body).await.expect(200);
    fund(json!({"operation": "RESET_SPENT", "amount": tokens(100), "spent": tokens(64)})).await;
    for _ in 0..10 {
        for operation in ["CREDIT", "DEBIT"] {
            fund(json!({"operation": operation, "amount": tokens(9_900)})).await;
        }
    }
    let keys = app.store.keys();
    let outbox = keys.outbox(umbra());
    let pointers: Vec<(String, Vec<String>)> = app.run(&["XRANGE", &outbox, "-", "+"]).await;
    let mut most = 0;
    for (_, pointer) in pointers {
        let fact = |name: &str| {
            let at = pointer.iter().position(|field| field == name);
            pointer[at.expect("a fact") + 1].clone()
        };
        assert_eq!(fact("tenant"), "umbra");
        let day = Day::parse(&fact("day")).expect("a day");
        let log = keys.events(umbra(), "umbra", day);
        let (first, count) = (fact("first"), fact("count"));
        let words = ["XRANGE", &log, &first, "+", "COUNT", &count];
        let entries: Vec<(String, Vec<String>)> = app.run(&words).await;
        let (ms, number) = first.split_once('-').expect("an id");
        let number: usize = number.parse().expect("a number");
        for (at, (entry, _)) in entries.iter().enumerate() {
            assert_eq!(entry, &format!("{ms}-{}", number + at));
        }
        most = most.max(entries.len());
    }
    assert_eq!(most, 61, "events of one operation");
}
