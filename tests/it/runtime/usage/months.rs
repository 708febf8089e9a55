//! Days that are merged into months, and what a report says of them.

use budget_authority::store::Day;
use serde_json::json;

use super::{report, rows};
use crate::dispatcher::retention::{retention, run};
use crate::harness::app::TestApp;

/// Gives a day the usage of today, and today none.
async fn moved_to(app: &TestApp, day: Day) {
    let (keys, partition) = (app.store.keys(), app.callers[0].partition);
    let today = app.store.today().to_string();
    for key in app.keys_like(&format!("*usage:acme:{today}*")).await {
        let then = key.replace(&today, &day.to_string());
        let () = app.run(&["RENAME", &key, &then]).await;
    }
    let member = format!("acme:{day}");
    let () = app
        .run(&[
            "ZADD",
            &keys.days(partition),
            &day.start_ms().to_string(),
            &member,
        ])
        .await;
    // Usage is counted since long ago.
    let from_ms = (day.start_ms() - 1).to_string();
    let () = app
        .run(&["HSET", &keys.meta(), "usage_from_ms", &from_ms])
        .await;
}

async fn charge(app: &TestApp, key: &str, name: &str, amount: i64) {
    let more = json!({"action": {"kind": "tool", "name": name}});
    app.post_event(key, "tenant:acme/app:real", amount, more)
        .await
        .expect(201);
}

async fn merged(app: &TestApp) {
    let lease = app
        .lease_of(
            app.callers[0].partition,
            "d",
            std::time::Duration::from_secs(60),
        )
        .await;
    let pass = run(&retention(&app.store), lease).await;
    assert_eq!((pass.failed, pass.processed > 0), (0, true), "{pass:?}");
}

#[tokio::test]
async fn old_days_become_a_month_and_young_ones_stay() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 100_000, 0).await;
    // More than 40 days ago, whatever day it is.
    let month = app.store.today().month(-2);
    let (old, later) = (month.plus(1), month.plus(2));
    for (index, day) in [old, later].into_iter().enumerate() {
        charge(&app, &format!("a{index}"), "small", 5).await;
        charge(&app, &format!("b{index}"), "large", 10).await;
        moved_to(&app, day).await;
    }
    charge(&app, "c", "large", 100).await;
    let text = |day: Day| day.date();
    let whole = format!("from={}&group_by=month,action_name", text(month));
    let before = rows(&report(&app, &whole).await);
    merged(&app).await;
    let months = app.keys_like("*usage_month:acme:*").await;
    assert_eq!(months.len(), 1);
    assert_eq!(rows(&report(&app, &whole).await), before);
    let ttl: i64 = app.run(&["PEXPIRETIME", &months[0]]).await;
    assert_eq!(ttl, month.month(25).start_ms());
    let last = later.date();
    for (query, named) in [
        (format!("from={}", text(old)), "only kept as a sum"),
        (
            format!("from={}&to={}", text(month), text(old)),
            "only kept as a sum",
        ),
        (
            format!("from={}&group_by=day", text(month)),
            "group by month",
        ),
    ] {
        let refused = app.get(&format!("/v1/usage?{query}")).await;
        let message = refused.text("/message");
        assert!(
            message.contains(named) && message.contains(&last),
            "{message}"
        );
        refused.refused(400, "INVALID_REQUEST");
    }
    for (query, expected) in [
        (format!("from={}", text(month)), "130 0 5"),
        (format!("from={}&to={}", text(month), text(later)), "30 0 4"),
        (format!("from={}", text(later.plus(1))), "100 0 1"),
    ] {
        assert_eq!(rows(&report(&app, &query).await), [expected], "{query}");
    }
}

#[tokio::test]
async fn a_day_of_many_combinations_is_merged_whole() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 100_000, 0).await;
    let fields: Vec<String> = (0..640)
        .map(|index| format!("TOKENS app:a - 4 tool name-{index}"))
        .collect();
    let key = app
        .store
        .keys()
        .usage(app.callers[0].partition, "acme", app.store.today());
    for (index, field) in fields.iter().enumerate() {
        let key = if index < 500 {
            key.clone()
        } else {
            format!("{key}:{}", index % 32)
        };
        let () = app.run(&["HSET", &key, field, "1 1 1"]).await;
    }
    let () = app.run(&["HSET", &key, "combinations", "640 20000"]).await;
    let () = app.run(&["HSET", &key, "TOKENS other", "7 2"]).await;
    let () = app
        .run(&["HSET", &key, &fields[0], "9223372036854775807 1 +"])
        .await;
    let day = app.store.today().month(-3).plus(9);
    moved_to(&app, day).await;
    let query = format!("from={}", day.month(0).date());
    let first = format!("{query}&action_name=name-0");
    let first_before = rows(&report(&app, &first).await);
    assert_eq!(first_before, [format!("{} 0 1 saturated", i64::MAX)]);
    let before = rows(&report(&app, &query).await);
    assert_eq!(before, [format!("{} 639 642 saturated", i64::MAX)]);
    merged(&app).await;
    assert_eq!(app.keys_like(&format!("*usage:acme:{day}*")).await, [""; 0]);
    assert_eq!(rows(&report(&app, &query).await), before);
    assert_eq!(rows(&report(&app, &first).await), first_before);
    let by_name = report(&app, &format!("{query}&group_by=action_name&limit=1000")).await;
    assert_eq!(rows(&by_name).len(), 641);
    let month =
        app.store
            .keys()
            .usage_of_month(app.callers[0].partition, "acme", &day.to_string()[..6]);
    let until: String = app.run(&["HGET", &month, "until"]).await;
    assert_eq!(until, day.to_string());
}
