//! How many rows a list examines, and that it shows each event once.

use budget_authority::admin::events::{EventQuery, Events};
use budget_authority::domain::event::query::{EventFilter, EventSort};
use budget_authority::domain::ids::RequestId;
use budget_authority::domain::refusal::Refusal;
use budget_authority::domain::search::Search;
use budget_authority::listing::{Bounds, Page};

use super::fixture::{EventsFixture, rows};
use crate::harness::admin_fixture::{admin_key, refusal};
use crate::harness::event_log::{EventLog, follow};
use crate::harness::redis::shared;
use crate::harness::store;

fn query(sort: EventSort, filter: EventFilter) -> EventQuery {
    EventQuery::new(filter, sort, true, 3)
}

fn of(tenant: &str) -> EventFilter {
    EventFilter {
        tenant: Some(tenant.to_owned()),
        ..EventFilter::default()
    }
}

const BOUNDS: Bounds = Bounds {
    page_rows: 20,
    matches: 30,
    rows: 60,
};

async fn list(events: &Events, query: &EventQuery) -> Page<String, EventSort> {
    let listed = events.list(&admin_key(), query).await;
    listed.expect("a page")
}

/// All pages, with the number of those that were empty although more followed.
async fn walk(events: &Events, mut query: EventQuery) -> (Vec<String>, usize) {
    let (mut found, mut empty) = (Vec::new(), 0);
    loop {
        let page = list(events, &query).await;
        empty += usize::from(page.rows.is_empty() && page.next.is_some());
        found.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return (found, empty),
        }
    }
}

#[tokio::test]
async fn a_page_with_few_matches_is_short_and_its_cursor_continues() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await;
    for number in 0..1_000 {
        let request = format!("req_{}", number / 250);
        let mut facts = vec![("request_id", request.as_str())];
        if number % 300 == 7 {
            facts.push(("correlation_id", "needle"));
        }
        event_log.emit("acme", now - 2_000 + number, &facts).await;
    }
    follow(&store).await;
    let events = Events::new(store, 90).bounded(BOUNDS);
    let search = |tenant: Option<&str>| EventFilter {
        tenant: tenant.map(str::to_owned),
        search: Some(Search::new("needle")),
        ..EventFilter::default()
    };
    for descending in [true, false] {
        for tenant in [None, Some("acme")] {
            let mut query = query(EventSort::Timestamp, search(tenant));
            query.sort.descending = descending;
            let (found, empty) = walk(&events, query).await;
            assert_eq!(found.len(), 4, "{tenant:?}");
            assert!(empty > 0, "{tenant:?}");
        }
    }
}

#[tokio::test]
async fn a_sort_without_an_index_is_refused_above_its_bound() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await;
    for number in 0..30 {
        event_log.emit("acme", now - 100 + number, &[]).await;
    }
    follow(&store).await;
    let events = Events::new(store.clone(), 90).bounded(BOUNDS);
    let filters = || [EventFilter::default(), of("acme")];
    for filter in filters() {
        let (found, _) = walk(&events, query(EventSort::EventType, filter)).await;
        assert_eq!(found.len(), 30);
    }
    event_log
        .emit("acme", now, &[("correlation_id", "late")])
        .await;
    follow(&store).await;
    for filter in filters() {
        let wanted = query(EventSort::Scope, filter.clone());
        let refused = refusal(events.list(&admin_key(), &wanted).await);
        assert!(
            matches!(&refused, Refusal::List(why) if why.bound == 30),
            "{refused:?}"
        );
        // The order of time has no such bound.
        let (found, _) = walk(&events, query(EventSort::Timestamp, filter)).await;
        assert_eq!(found.len(), 31);
    }
    for number in 0..30 {
        event_log.emit("acme", now + 1 + number, &[]).await;
    }
    event_log.until_ms(now + 40).await;
    follow(&store).await;
    let none = EventFilter {
        search: Some(Search::new("late")),
        ..EventFilter::default()
    };
    for filter in [
        none.clone(),
        EventFilter {
            tenant: of("acme").tenant,
            ..none
        },
    ] {
        let wanted = query(EventSort::TenantId, filter);
        let refused = refusal(events.list(&admin_key(), &wanted).await);
        assert!(
            matches!(&refused, Refusal::List(why) if why.bound == 60),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn over_http_the_refusal_names_the_remedy() {
    let fixture = EventsFixture::new().await;
    let now = fixture.event_log.now_ms().await;
    let log = fixture.event_log.log("alpha", now);
    let script = "for i = 1, 10101 do redis.call('XADD', KEYS[1], '*', 'type', 'tenant.updated', 'at_ms', ARGV[1]) end";
    let at = now.to_string();
    fixture
        .event_log
        .run::<()>(&["EVAL", script, "1", &log, &at])
        .await;
    let response = fixture
        .admin("tenant_id=alpha&sort_by=event_type")
        .await
        .refused(400, "LIMIT_EXCEEDED");
    let message = response.text("/message");
    assert!(
        message.contains("10000") && message.contains("from and to"),
        "{message}"
    );
    let narrowed = "tenant_id=alpha&sort_by=event_type&to=2020-01-01T00:00:00Z";
    assert!(rows(&fixture.admin(narrowed).await).is_empty());
    // In order of time a page ends once it has read 5,000, and its cursor continues.
    let mut pages = 0;
    let mut cursor = String::new();
    loop {
        let query = format!("tenant_id=alpha&search=nothing{cursor}");
        let response = fixture.admin(&query).await;
        assert!(rows(&response).is_empty());
        pages += 1;
        match response.at("/next_cursor").as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(pages, 3, "5,000, 5,000 and the rest");
}

#[tokio::test]
async fn events_of_one_millisecond_are_neither_skipped_nor_repeated_however_many() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await - 10;
    for _ in 0..23 {
        for tenant in ["acme", "bolt", "cask"] {
            event_log
                .emit(tenant, now, &[("correlation_id", "together")])
                .await;
        }
    }
    follow(&store).await;
    let events = Events::new(store, 90);
    let together = EventFilter {
        correlation_id: Some("together".to_owned()),
        ..EventFilter::default()
    };
    for filter in [
        EventFilter::default(),
        together.clone(),
        of("acme"),
        EventFilter {
            tenant: of("acme").tenant,
            ..together
        },
    ] {
        for (descending, limit) in [(true, 1), (false, 1), (true, 5), (false, 22), (true, 100)] {
            let query = EventQuery::new(filter.clone(), EventSort::Timestamp, descending, limit);
            let (mut found, _) = walk(&events, query).await;
            let count = if filter.tenant.is_some() { 23 } else { 69 };
            assert_eq!(found.len(), count, "{filter:?} {limit}");
            found.sort();
            found.dedup();
            assert_eq!(found.len(), count, "{filter:?} {limit}");
        }
    }
}

#[tokio::test]
async fn a_tenants_events_are_found_by_id_however_far_the_view_is() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let events = Events::new(store.clone(), 90);
    let request = RequestId::mint().to_string();
    let by_request = |descending| {
        let filter = EventFilter {
            request_id: Some(request.clone()),
            ..of("acme")
        };
        EventQuery::new(filter, EventSort::Timestamp, descending, 3)
    };
    let mut listed = 0;
    for round in 0..4 {
        for _ in 0..7 {
            let now = event_log.now_ms().await;
            event_log
                .emit("acme", now, &[("request_id", &request)])
                .await;
            event_log
                .emit("acme", now, &[("request_id", "another")])
                .await;
            listed += 1;
        }
        // The view grows between the pages of the same list.
        for descending in [true, false] {
            let (mut query, mut found, mut pages) = (by_request(descending), Vec::new(), 0);
            loop {
                let page = list(&events, &query).await;
                found.extend(page.rows);
                pages += 1;
                if pages == 2 && round % 2 == 1 {
                    follow(&store).await;
                }
                let Some(next) = page.next else { break };
                query.after = Some(next);
            }
            assert_eq!(found.len(), listed, "{round} {descending}");
            found.sort();
            found.dedup();
            assert_eq!(found.len(), listed, "{round} {descending}");
        }
    }
}

#[tokio::test]
async fn an_event_with_a_later_entry_than_its_time_is_listed_once() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await;
    // The view reaches beyond the time of the event, and not to that of its entry.
    let at = now.to_string();
    let facts = [("at_ms", at.as_str()), ("request_id", "req_1")];
    event_log.emit("acme", now + 3_000, &facts).await;
    follow(&store).await;
    let events = Events::new(store.clone(), 90);
    let filter = EventFilter {
        request_id: Some("req_1".to_owned()),
        ..of("acme")
    };
    for descending in [true, false] {
        let query = EventQuery::new(filter.clone(), EventSort::Timestamp, descending, 3);
        assert_eq!(list(&events, &query).await.rows.len(), 1);
    }
    // Up to its time it is there, up to just before it is not.
    for (to_ms, count) in [(now, 1), (now - 1, 0)] {
        let mut query = query(EventSort::Timestamp, of("acme"));
        query.filter.window.to_ms = Some(to_ms);
        assert_eq!(list(&events, &query).await.rows.len(), count);
    }
}
