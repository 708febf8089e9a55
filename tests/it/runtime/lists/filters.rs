//! The rows of a list, and their members.

use budget_authority::domain::moment::Moment;
use serde_json::{Value, json};

use super::{Fixture, rows, texts};
use crate::harness::app::{TestApp, reserve_body};
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

const ALL: [&str; 6] = ["active", "committed", "expired", "last", "late", "released"];

#[tokio::test]
async fn each_filter_selects_its_rows_and_filters_combine() {
    let list = Fixture::new().await;
    for (query, found) in [
        ("", &ALL[..]),
        ("tenant=acme", &ALL),
        ("status=ACTIVE", &["active", "last", "late"]),
        ("status=COMMITTED", &["committed"]),
        ("status=RELEASED", &["released"]),
        ("status=EXPIRED", &["expired"]),
        ("workspace=prod", &["committed", "expired"]),
        ("workspace=PROD", &["committed", "expired"]),
        ("workspace=prod&status=EXPIRED", &["expired"]),
        ("workspace=prod&agent=a", &["committed"]),
        ("workspace=pro", &[]),
        ("workspace=prod/agent:a", &[]),
        ("agent=a", &["committed"]),
        ("app=x", &["active"]),
        ("app=x&agent=a", &[]),
        ("toolset=x", &[]),
        ("workflow=x", &[]),
        ("idempotency_key=late", &["late"]),
        ("idempotency_key=committed", &["committed"]),
        ("idempotency_key=LATE", &[]),
        ("idempotency_key=late&status=EXPIRED", &[]),
        ("idempotency_key=late&workspace=prod-2", &["late"]),
    ] {
        assert_eq!(list.keys(query).await, found, "{query}");
        for sort in ["sort_by=expires_at_ms", "sort_by=status&sort_dir=asc"] {
            let query = format!("{query}&{sort}");
            assert_eq!(list.keys(&query).await, found, "{query}");
        }
    }
}

#[tokio::test]
async fn blank_parameters_are_absent_and_unknown_ones_ignored() {
    let list = Fixture::new().await;
    let blank = "tenant=&workspace=&app=%20&workflow=&agent=%09&toolset=&idempotency_key=&status=\
        &from=&to=%20&expires_from=&expires_to=&finalized_from=&finalized_to=&sort_by=&sort_dir=\
        &include=&limit=&cursor=";
    for query in [blank, "tenant_id=bolt&foo=bar&&=&%00=1", "STATUS=ACTIVE"] {
        assert_eq!(list.keys(query).await, ALL, "{query}");
    }
}

#[tokio::test]
async fn windows_are_inclusive_on_both_sides() {
    let list = Fixture::new().await;
    for (member, prefix) in [
        ("created_at_ms", ""),
        ("expires_at_ms", "expires_"),
        ("finalized_at_ms", "finalized_"),
    ] {
        let response = list.get("").await;
        let with = |row: &&Value| row[member].is_i64();
        let all: Vec<Value> = rows(&response).iter().filter(with).cloned().collect();
        assert!(!all.is_empty());
        for row in &all {
            let at = row[member].as_i64().expect("a time");
            let within = |from: i64, to: i64| {
                let inside = |row: &&Value| {
                    let at = row[member].as_i64().expect("a time");
                    (from..=to).contains(&at)
                };
                let mut keys = texts(
                    &all.iter().filter(inside).cloned().collect::<Vec<_>>(),
                    "idempotency_key",
                );
                keys.sort();
                keys
            };
            let date = |ms: i64| Moment::from_ms(ms).expect("a date").to_string();
            let from = |ms: i64| format!("{prefix}from={}", date(ms));
            let to = |ms: i64| format!("{prefix}to={}", date(ms));
            for (query, found) in [
                (format!("{}&{}", from(at), to(at)), within(at, at)),
                (from(at), within(at, i64::MAX)),
                (from(at + 1), within(at + 1, i64::MAX)),
                (to(at), within(i64::MIN, at)),
                (to(at - 1), within(i64::MIN, at - 1)),
                (format!("{}&{prefix}to=", from(at)), within(at, i64::MAX)),
            ] {
                assert_eq!(list.keys(&query).await, found, "{query}");
                let sorted = format!("{query}&sort_by=reserved");
                assert_eq!(list.keys(&sorted).await, found, "{sorted}");
            }
        }
    }
}

#[tokio::test]
async fn either_bound_on_the_end_leaves_out_active_and_expired_reservations() {
    let list = Fixture::new().await;
    let ended = ["committed", "released"];
    for query in [
        "finalized_from=2020-01-01T00:00:00Z",
        "finalized_to=2100-01-01T00:00:00Z",
        "finalized_from=2020-01-01T00:00:00Z&sort_by=status",
    ] {
        assert_eq!(list.keys(query).await, ended, "{query}");
    }
    let combined = "finalized_from=2020-01-01T00:00:00Z&expires_to=2020-01-01T00:00:00Z";
    assert!(list.keys(combined).await.is_empty());
}

#[tokio::test]
async fn offsets_and_fractions_of_seconds_are_read_a_bare_plus_included() {
    let list = Fixture::new().await;
    for open in [
        "from=2020-01-01T00:00:00Z",
        "from=2020-01-01T02:00:00%2B02:00",
        "from=2020-01-01T02:00:00+02:00",
        "from=2019-12-31T22:00:00.123456-02:00",
        "from=0001-01-01T00:00:00Z",
        "to=9999-12-30T00:00:00Z",
        "from=%202020-01-01T00:00:00Z%20",
    ] {
        assert_eq!(list.keys(open).await, ALL, "{open}");
        let sorted = format!("{open}&sort_by=reserved");
        assert_eq!(list.keys(&sorted).await, ALL, "{sorted}");
    }
}

#[tokio::test]
async fn a_list_without_a_lower_bound_costs_no_more() {
    let redis = crate::harness::redis::RedisServer::start();
    let app = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    app.budget("tenant:acme", 1_000, 0).await;
    app.reserve("k", 1).await;
    let calls = || {
        let stats: String = redis.run(&["INFO", "commandstats"]);
        let line = stats
            .lines()
            .find(|line| line.starts_with("cmdstat_evalsha:"));
        let count = line.and_then(|line| line.split(['=', ',']).nth(1));
        count.expect("a count").parse::<u64>().expect("a number")
    };
    // The replica has calls of its own now and then: the least of five lists is without them.
    let list = async |query: &str| {
        let mut least = u64::MAX;
        for _ in 0..5 {
            let before = calls();
            let response = app.get(&format!("/v1/reservations?{query}")).await;
            assert_eq!(response.at("/reservations/0/idempotency_key"), &json!("k"));
            least = least.min(calls() - before);
        }
        least
    };
    // The first one brings the script to Redis.
    list("").await;
    let usual = list("").await;
    for from in ["1970-01-01", "0001-01-01"] {
        assert_eq!(list(&format!("from={from}T00:00:00Z")).await, usual);
    }
}

#[tokio::test]
async fn wrong_values_are_named_with_what_is_allowed() {
    let list = Fixture::new().await;
    let long = "k".repeat(257);
    for (query, named) in [
        ("limit=0", "Invalid limit: 0;"),
        ("limit=201", "Invalid limit: 201;"),
        ("limit=abc", "Invalid limit: abc;"),
        ("limit=1.0", "Invalid limit: 1.0;"),
        ("limit=%2B1", "Invalid limit: +1;"),
        ("status=active", "Invalid status: active; allowed: ACTIVE"),
        (
            "status=FINISHED",
            "Invalid status: FINISHED; allowed: ACTIVE",
        ),
        ("status=ACTIVE,EXPIRED", "Invalid status: ACTIVE,EXPIRED"),
        ("status=ACTIVE&status=EXPIRED", "Invalid status: "),
        (
            "sort_by=price",
            "Invalid sort_by: price; allowed: reservation_id",
        ),
        ("sort_dir=up", "Invalid sort_dir: up; allowed: asc, desc"),
        ("from=yesterday", "Invalid from: yesterday"),
        ("to=1790000000000", "Invalid to: 1790000000000"),
        ("from=2026-02-30T00:00:00Z", "Invalid from: 2026-02-30"),
        ("from=2026-01-01", "Invalid from: 2026-01-01"),
        ("from=10000-01-01T00:00:00Z", "Invalid from: 10000"),
        ("expires_from=x", "Invalid expires_from: x"),
        ("finalized_to=%FF%00", "Invalid finalized_to: "),
        ("cursor=x", "Invalid cursor: "),
        (
            &format!("idempotency_key={long}"),
            "Invalid idempotency_key: kkk",
        ),
    ] {
        let message = list.refused(query).await;
        assert!(message.starts_with(named), "{query}: {message}");
    }
    let longest = format!("idempotency_key={}", "%C3%A9".repeat(256));
    assert!(list.keys(&longest).await.is_empty());
}

#[tokio::test]
async fn a_window_that_ends_before_it_begins_is_refused_naming_both_bounds() {
    let list = Fixture::new().await;
    let (early, late) = ("2026-07-04T12:00:00Z", "2026-07-04T12:00:00.001Z");
    for prefix in ["", "expires_", "finalized_"] {
        let reversed = format!("{prefix}from={late}&{prefix}to={early}");
        let message = list.refused(&reversed).await;
        assert!(
            message.contains(early) && message.contains(late),
            "{message}"
        );
        let equal = format!("{prefix}from={early}&{prefix}to={early}");
        assert!(list.keys(&equal).await.is_empty());
    }
}

#[tokio::test]
async fn optional_members_are_returned_on_request_and_committed_always() {
    let list = Fixture::new().await;
    for (include, included) in [
        ("", &[][..]),
        ("include=metadata,%20,bogus,", &["metadata"]),
        ("include=%20committed_metadata%20", &["committed_metadata"]),
        (
            "include=metadata&include=committed_metadata",
            &["committed_metadata", "metadata"],
        ),
        ("include=METADATA,evidence,%00", &[]),
    ] {
        for row in rows(&list.get(include).await) {
            let (status, key) = (&row["status"], row["idempotency_key"].as_str());
            let optional = ["committed_metadata", "evidence", "metadata"];
            let found: Vec<_> = optional
                .into_iter()
                .filter(|m| row.get(m).is_some())
                .collect();
            match key {
                Some("committed") => {
                    assert_eq!(found, included, "{include}");
                    assert_eq!(row["committed"]["amount"], 25);
                }
                Some("last") => assert!(found.iter().all(|m| *m == "metadata")),
                _ => assert!(found.is_empty(), "{row}"),
            }
            assert_eq!(row.get("committed").is_some(), *status == "COMMITTED");
            let ended = *status == "COMMITTED" || *status == "RELEASED";
            assert_eq!(row.get("finalized_at_ms").is_some(), ended, "{row}");
        }
    }
    let row = list.get("idempotency_key=committed&include=metadata").await;
    assert_eq!(
        row.at("/reservations/0/metadata"),
        &json!({"note": "first"})
    );
    assert_eq!(row.at("/reservations/0/subject/workspace"), &json!("Prod"));
    assert_eq!(
        row.at("/reservations/0/scope_path"),
        &json!("tenant:acme/workspace:prod/agent:a")
    );
}

#[tokio::test]
async fn a_dry_run_and_a_decision_are_never_listed() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let mut body = reserve_body("dry", 1);
    body["dry_run"] = json!(true);
    app.post("/v1/reservations", body).await.expect(200);
    app.post("/v1/decide", reserve_body("decided", 1))
        .await
        .expect(200);
    for query in [
        "",
        "?idempotency_key=dry",
        "?idempotency_key=decided",
        "?sort_by=status",
    ] {
        let response = app.get(&format!("/v1/reservations{query}")).await;
        assert_eq!(
            response.body,
            json!({"reservations": [], "has_more": false})
        );
    }
}

#[tokio::test]
async fn a_list_of_one_tenant_never_shows_another() {
    let list = Fixture::new().await;
    for query in [
        "",
        "?idempotency_key=late",
        "?workspace=prod",
        "?sort_by=status",
    ] {
        let response = list
            .app
            .get_as(1, &format!("/v1/reservations{query}"))
            .await;
        assert_eq!(
            response.body,
            json!({"reservations": [], "has_more": false})
        );
    }
    for other in ["acme", "acme%00", "ACME", "bol"] {
        let response = list
            .app
            .get_as(1, &format!("/v1/reservations?tenant={other}"))
            .await;
        assert_eq!(response.error(), (403, "FORBIDDEN"), "{other}");
    }
}
