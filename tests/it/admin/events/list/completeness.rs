//! Lists with damaged entries, and the completeness of a list over all tenants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use budget_authority::admin::events::{EventQuery, Events};
use budget_authority::domain::event::query::{EventFilter, EventSort};

use super::fixture::{EVENTS, EventsFixture, rows, text};
use crate::harness::admin_fixture::{AdminFixture, admin_key};
use crate::harness::event_log::{EventLog, everywhere, follow, follower, partition_of};
use crate::harness::redis::shared;
use crate::harness::store;

#[tokio::test]
async fn damaged_or_missing_entries_are_left_out_and_hide_no_others() {
    let mut fixture = EventsFixture::new().await;
    let now = fixture.event_log.now_ms().await;
    fixture
        .event_log
        .emit("alpha", now, &[("type", "budget.of_a_later_release")])
        .await;
    fixture
        .event_log
        .emit("alpha", now, &[("type", "budget.exhausted")])
        .await;
    fixture.event_log.emit("alpha", now, &[]).await;
    let gone = fixture.event_log.emit("beta", now, &[]).await;
    follow(&fixture.app.store).await;
    let log = fixture.event_log.log("beta", now);
    fixture
        .event_log
        .run::<i64>(&["XDEL", &log, &gone.to_string()])
        .await;
    let own = rows(&fixture.own("").await);
    assert_eq!(own.len(), 2, "{own:?}");
    for query in [
        "",
        "sort_by=event_type",
        "category=budget",
        "scope=tenant:",
        "sort_by=tenant_id&sort_dir=asc",
    ] {
        let page = fixture.admin(query).await;
        let events = rows(&page);
        assert!(
            events
                .iter()
                .all(|event| text(event, "category") != "budget"),
            "{events:?}"
        );
    }
    assert_eq!(rows(&fixture.admin("").await).len(), 5);
    // A log that is not a stream counts as empty, and hides no other day's events.
    fixture.event_log.run::<()>(&["SET", &log, "x"]).await;
    assert!(rows(&fixture.admin("tenant_id=beta").await).is_empty());
    assert_eq!(rows(&fixture.admin("").await).len(), 4);
    let id = format!("evt_{}_AAAAAAAAAAAAAAAA_1-1", partition_of("beta"));
    fixture
        .app
        .get_as_admin(&format!("{}/{id}", EVENTS))
        .await
        .expect(404);
}

#[tokio::test]
async fn over_all_tenants_no_event_is_listed_beyond_the_watermark() {
    let fixture = EventsFixture::new().await;
    let store = &fixture.app.store;
    let page = fixture.admin("").await;
    assert!(rows(&page).is_empty());
    assert_eq!(
        page.header("x-service-as-of"),
        Some("1970-01-01T00:00:00.000Z")
    );
    // Inside a tenant all of it is there.
    assert_eq!(rows(&fixture.admin("tenant_id=alpha").await).len(), 2);
    follow(store).await;
    assert_eq!(rows(&fixture.admin("").await).len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_over_all_tenants_is_complete_up_to_its_as_of_time() {
    let store = store(&shared().url());
    let over = Arc::new(AtomicBool::new(false));
    let followers: Vec<_> = (0..2)
        .map(|_| {
            let (store, over) = (store.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let pass = follower(&store).run_once(&everywhere()).await;
                    pass.expect("Redis answers");
                }
            })
        })
        .collect();
    let writer = tokio::spawn({
        let fixture = AdminFixture::on(store.clone());
        async move {
            for number in 0..150 {
                fixture.tenant(&format!("tenant-{number}")).await;
            }
        }
    });
    let events = Events::new(store.clone(), 90);
    let mut polls = Vec::new();
    while !writer.is_finished() {
        let query = EventQuery::new(EventFilter::default(), EventSort::Timestamp, true, 1_000);
        let listed = events.list(&admin_key(), &query).await.expect("a page");
        polls.push((listed.as_of_ms.expect("a time"), listed.rows.len()));
    }
    writer.await.expect("it ends");
    over.store(true, Ordering::Relaxed);
    for follower in followers {
        follower.await.expect("it ends");
    }
    let events = EventLog::on(&store).events().await;
    assert!(
        polls.len() > 10 && polls.iter().any(|(_, count)| *count > 0),
        "{polls:?}"
    );
    for (as_of_ms, count) in polls {
        let before = events
            .iter()
            .filter(|event| event.facts.integer("at_ms").expect("a time") < as_of_ms);
        assert_eq!(count, before.count(), "{as_of_ms}");
    }
}
