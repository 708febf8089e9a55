//! How many entries lists of the audit log read, and how current they are.

use budget_authority::admin::audit::logs::{AuditLogs, AuditQuery, AuditSort};
use budget_authority::domain::audit::query::AuditFilter;
use budget_authority::domain::refusal::Refusal;
use budget_authority::listing::{Bounds, Position};

use crate::admin::audit::logs::{list, members};
use crate::harness::admin_fixture::refusal;
use crate::harness::app::TestApp;
use crate::harness::audit_chain::{append, seal_everything};
use crate::harness::redis::shared;
use crate::harness::store;

fn query(filter: AuditFilter, sort: AuditSort, after: Option<Position>) -> AuditQuery {
    let mut query = AuditQuery::new(filter, sort, true, 5);
    query.after = after;
    query
}

#[tokio::test]
async fn pages_by_time_may_be_short_and_list_everything_once() {
    let store = store(&shared().url());
    let today = store.today();
    for number in 0..60_i64 {
        // Three days, several entries in one millisecond.
        let at_ms = today.plus(-number / 20 - 1).start_ms() + number / 7 * 1_000;
        let (id, status) = (
            number.to_string(),
            if number % 10 == 0 { "404" } else { "200" },
        );
        let fields = [("operation", "x"), ("status", status), ("resource_id", &id)];
        append(
            &store,
            if number % 4 == 0 { "bolt" } else { "acme" },
            at_ms,
            &fields,
        );
    }
    seal_everything(&store).await;
    let bounds = Bounds {
        page_rows: 7,
        matches: 20,
        rows: 30,
    };
    let logs = AuditLogs::new(store, 400).bounded(bounds);
    for (tenant, expected, sparse) in [(None, 60, 6), (Some("acme"), 45, 3)] {
        for (status_min, expected) in [(None, expected), (Some(404), sparse)] {
            let filter = AuditFilter {
                tenant: tenant.map(str::to_owned),
                status_min,
                ..AuditFilter::default()
            };
            let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
            loop {
                let wanted = query(filter.clone(), AuditSort::Timestamp, after);
                let page = logs.list(&wanted).await.expect("a page");
                assert!(page.rows.len() <= 5);
                seen.extend(
                    page.rows
                        .into_iter()
                        .map(|entry| (entry.timestamp, entry.log_id)),
                );
                pages += 1;
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            assert_eq!(seen.len(), expected, "{tenant:?} {status_min:?}");
            assert!(pages >= expected / 5);
            assert!(seen.is_sorted_by(|a, b| a.0 >= b.0));
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), expected, "each once");
        }
        let filter = AuditFilter {
            tenant: tenant.map(str::to_owned),
            ..AuditFilter::default()
        };
        let refused = refusal(
            logs.list(&query(filter.clone(), AuditSort::Status, None))
                .await,
        );
        assert!(
            matches!(&refused, Refusal::List(why) if why.bound == 20),
            "{refused:?}"
        );
        // Few match, but too many would have to be examined.
        let sparse = AuditFilter {
            status_min: Some(404),
            ..filter
        };
        let refused = refusal(logs.list(&query(sparse, AuditSort::Status, None)).await);
        assert!(
            matches!(&refused, Refusal::List(why) if why.bound == 30),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_tenants_list_is_current_and_that_over_all_reaches_its_watermark() {
    let app = TestApp::spawn().await;
    let store = &app.store;
    let record = |id: &str| {
        let now_ms = store.clock().now_ms();
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let fields = [
            ("operation", "x"),
            ("status", "200"),
            ("request_id", id),
            ("trace_id", trace),
        ];
        append(store, "acme", now_ms, &fields);
    };
    let as_of = |response: &crate::harness::response::Response| {
        response.header("x-service-as-of").map(str::to_owned)
    };
    record("a");
    let before = list(&app, "").await;
    assert_eq!(
        members(&before, "request_id").len(),
        0,
        "nobody has looked yet"
    );
    assert_eq!(as_of(&before).as_deref(), Some("1970-01-01T00:00:00.000Z"));
    app.next_ms().await;
    seal_everything(store).await;
    record("b");
    let all = list(&app, "").await;
    assert_eq!(members(&all, "request_id"), ["a"]);
    assert!(as_of(&all).is_some_and(|as_of| as_of.starts_with("20")));
    let own = list(&app, "tenant_id=acme").await;
    assert_eq!(members(&own, "request_id"), ["b", "a"]);
    assert_eq!(as_of(&own), None);
    // An id is looked for in the view and, behind its watermark, in the tenant's log.
    let trace = "trace_id=4bf92f3577b34da6a3ce929d0e0e4736";
    let own = list(&app, &format!("{trace}&tenant_id=acme")).await;
    assert_eq!(members(&own, "request_id"), ["b", "a"]);
    let own = list(
        &app,
        &format!("{trace}&tenant_id=acme&sort_dir=asc&limit=1"),
    )
    .await;
    assert_eq!(members(&own, "request_id"), ["a"]);
    let cursor = own.text("/next_cursor");
    let own = list(
        &app,
        &format!("{trace}&tenant_id=acme&sort_dir=asc&limit=1&cursor={cursor}"),
    )
    .await;
    assert_eq!(members(&own, "request_id"), ["b"]);
    assert_eq!(members(&list(&app, trace).await, "request_id"), ["a"]);
}

/// An entry's place in its stream may be a little later than its own time, and so behind the watermark.
#[tokio::test]
async fn an_entry_with_a_later_id_than_its_time_is_listed_once() {
    let app = TestApp::spawn().await;
    let store = &app.store;
    let now_ms = store.node_times().await.expect("times")[0].1;
    let (at_ms, id) = (
        (now_ms - 2_000).to_string(),
        format!("{}-0", now_ms + 2_000),
    );
    let acme = budget_authority::domain::ids::TenantId::parse("acme").expect("a tenant");
    let (keys, partition) = (store.keys(), acme.partition());
    let day = budget_authority::store::Day::of_ms(now_ms - 2_000);
    let log = keys.audit(partition, "acme", day);
    let fields = [
        "sequence",
        "1",
        "at_ms",
        &at_ms,
        "operation",
        "x",
        "status",
        "200",
        "request_id",
        "a",
    ];
    let mut words = vec!["XADD", log.as_str(), &id];
    words.extend(fields);
    shared().run::<String>(&words);
    let chain = keys.chain(partition, "acme");
    shared().run::<i64>(&["HSET", &chain, "sequence", "1"]);
    shared().run::<i64>(&["SADD", &keys.unsealed(partition), "acme"]);
    seal_everything(store).await;
    for direction in ["asc", "desc"] {
        let query = format!("tenant_id=acme&request_id=a&sort_dir={direction}");
        assert_eq!(members(&list(&app, &query).await, "request_id"), ["a"]);
    }
}

#[tokio::test]
async fn damaged_or_missing_entries_hide_no_others() {
    let app = TestApp::spawn().await;
    let store = &app.store;
    let day = store.today().plus(-1);
    let at_ms = day.start_ms();
    append(
        store,
        "acme",
        at_ms,
        &[("operation", "x"), ("status", "200"), ("request_id", "a")],
    );
    append(
        store,
        "acme",
        at_ms + 1,
        &[("operation", "x"), ("status", "odd"), ("request_id", "b")],
    );
    append(
        store,
        "bolt",
        at_ms + 2,
        &[("operation", "x"), ("status", "200"), ("request_id", "c")],
    );
    append(
        store,
        "acme",
        at_ms + 3,
        &[("operation", "x"), ("status", "200"), ("request_id", "d")],
    );
    seal_everything(store).await;
    let bolt = budget_authority::domain::ids::TenantId::parse("bolt").expect("a tenant");
    let log = store.keys().audit(bolt.partition(), "bolt", day);
    for damage in [&["DEL", log.as_str()][..], &["SET", &log, "no log"]] {
        shared().run::<redis::Value>(damage);
        assert_eq!(members(&list(&app, "").await, "request_id").concat(), "da");
        assert_eq!(
            members(&list(&app, "tenant_id=acme").await, "request_id").concat(),
            "da"
        );
        assert_eq!(
            members(&list(&app, "tenant_id=bolt").await, "request_id").concat(),
            ""
        );
        assert_eq!(
            members(&list(&app, "sort_by=status").await, "request_id").len(),
            2
        );
    }
}
