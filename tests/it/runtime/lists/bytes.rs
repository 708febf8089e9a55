//! How many bytes a list reads: what its rows return, and no more.

use serde_json::json;

use super::{Fixture, rows, texts};
use crate::harness::app::{TestApp, reserve_body};
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::tenant_fixture::TenantFixture;

const NOTE: usize = 900_000;

/// Ten reservations with much metadata.
async fn with_long_metadata(redis: &RedisServer) -> Fixture {
    let settings = [&["--metadata-bytes", "1048576"][..], LONG_REDIS_TIMEOUT].concat();
    let app = TestApp::spawn_on(&redis.url(), &settings).await;
    app.budget("tenant:acme", 1_000_000, 0).await;
    let mut ids = Vec::new();
    for number in 0..10 {
        let mut body = reserve_body(&format!("k{number}"), 10);
        body["metadata"] = json!({"note": "x".repeat(NOTE)});
        body["ttl_ms"] = json!(3_600_000);
        let response = app.post("/v1/reservations", body).await.expect(200);
        ids.push(response.text("/reservation_id").to_owned());
    }
    Fixture { app, ids }
}

/// The bytes that Redis has sent in all.
fn sent_bytes(redis: &RedisServer) -> usize {
    let stats: String = redis.run(&["INFO", "stats"]);
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    line.expect("a count").parse().expect("a number")
}

#[tokio::test]
async fn metadata_is_read_only_where_it_is_returned() {
    let redis = RedisServer::start();
    let list = with_long_metadata(&redis).await;
    let id = &list.ids[0];
    let extend = json!({"idempotency_key": "e", "extend_by_ms": 1_000, "metadata": {"note": "y".repeat(NOTE)}});
    list.app
        .post(&format!("/v1/reservations/{id}/extend"), extend)
        .await
        .expect(200);
    let path = format!("/v1/reservations/{id}/commit");
    let commit = json!({"idempotency_key": "c", "actual": {"unit": "TOKENS", "amount": 5},
        "metadata": {"note": "z".repeat(NOTE)}});
    let committed = list.app.post(&path, commit.clone()).await.expect(200);
    for query in [
        "",
        "sort_by=reserved",
        "status=ACTIVE&sort_by=expires_at_ms",
        "idempotency_key=k1",
    ] {
        let before = sent_bytes(&redis);
        assert!(!rows(&list.get(query).await).is_empty(), "{query}");
        let moved = sent_bytes(&redis) - before;
        assert!(moved < 60_000, "{query}: {moved} bytes");
    }
    let before = sent_bytes(&redis);
    let again = list.app.post(&path, commit).await;
    assert_eq!(
        (again.status, &again.body),
        (committed.status, &committed.body)
    );
    assert!(
        sent_bytes(&redis) - before < 60_000,
        "a replay needs no metadata"
    );
    // Beside the two that it shows, no third.
    let before = sent_bytes(&redis);
    list.app
        .get(&format!("/v1/reservations/{id}"))
        .await
        .expect(200);
    assert!(sent_bytes(&redis) - before < 2 * NOTE + 60_000);
}

#[tokio::test]
async fn a_record_keeps_the_metadata_of_its_last_extension_only() {
    let list = Fixture::new().await;
    let id = &list.ids[2];
    for number in 0..3 {
        let body = json!({"idempotency_key": format!("e{number}"), "extend_by_ms": 1_000,
            "metadata": {"n": number}});
        list.app
            .post(&format!("/v1/reservations/{id}/extend"), body)
            .await
            .expect(200);
    }
    let fixture = &list.app;
    let key = fixture
        .store
        .keys()
        .reservation(fixture.callers[0].partition, id);
    let record: std::collections::HashMap<String, String> = fixture.run(&["HGETALL", &key]).await;
    let kept: Vec<_> = record
        .iter()
        .filter(|(name, _)| name.contains("metadata"))
        .collect();
    assert_eq!(
        kept,
        [(&"extended_metadata".to_owned(), &r#"{"n":2}"#.to_owned())]
    );
}

#[tokio::test]
async fn a_record_keeps_a_bounded_number_of_extensions() {
    let list = Fixture::new().await;
    let id = &list.ids[2];
    let fixture = &list.app;
    let key = fixture
        .store
        .keys()
        .reservation(fixture.callers[0].partition, id);
    let most = i64::MAX.to_string();
    fixture
        .run::<()>(&["HSET", &key, "max_extensions", &most, "extensions", "999"])
        .await;
    let path = format!("/v1/reservations/{id}/extend");
    let extend = |key: &str| json!({"idempotency_key": key, "extend_by_ms": 1_000});
    list.app.post(&path, extend("last")).await.expect(200);
    list.app
        .post(&path, extend("more"))
        .await
        .refused(409, "MAX_EXTENSIONS_EXCEEDED");
    assert_eq!(
        list.app.post(&path, extend("last")).await.status,
        200,
        "a replay"
    );
}

#[tokio::test]
async fn a_page_with_much_metadata_is_short_and_its_cursor_continues() {
    let redis = RedisServer::start();
    let list = with_long_metadata(&redis).await;
    for query in [
        "include=metadata",
        "include=metadata&sort_by=reserved",
        "include=metadata&status=ACTIVE&sort_by=expires_at_ms",
    ] {
        let first = list.get(query).await;
        assert_eq!(rows(&first).len(), 4, "{query}: 4 MiB at most");
        let mut seen = list.walk(query, 7).await;
        seen.sort_by_key(|row| row["idempotency_key"].as_str().map(str::to_owned));
        assert_eq!(texts(&seen, "reservation_id"), list.ids, "{query}");
        assert!(
            seen.iter()
                .all(|row| row["metadata"]["note"].as_str().map(str::len) == Some(NOTE))
        );
    }
}

#[tokio::test]
async fn a_large_gathering_is_paged_in_order() {
    let app = TestApp::spawn().await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    let now = crate::harness::redis_fixture::now_ms(&app.store).await;
    let mut ids = tenant.write_holds(450, now + 60_000).await;
    super::cursors::complete(&app, &tenant).await;
    ids.sort();
    let list = Fixture { app, ids };
    let seen = list.walk("sort_by=reserved", 200).await;
    assert_eq!(texts(&seen, "reservation_id"), list.ids);
    assert!(seen.iter().all(|row| row["reserved"]["amount"] == 10));
}

#[tokio::test]
async fn a_replay_of_a_create_reads_no_extensions() {
    let redis = RedisServer::start();
    let app = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    app.budget("tenant:acme", 1_000, 0).await;
    let first = app.reserve("k", 10).await;
    let keys = app.store.keys();
    let key = keys.reservation(app.callers[0].partition, first.text("/reservation_id"));
    let extensions: Vec<_> = (0..10_000).map(|n| format!("extend.{n}")).collect();
    for batch in extensions.chunks(1_000) {
        let mut words = vec!["HSET", key.as_str()];
        words.extend(batch.iter().flat_map(|name| [name.as_str(), "entry"]));
        app.run::<i64>(&words).await;
    }
    let mut read = usize::MAX;
    // The replica reads the state of Redis now and then: the least of five is without it.
    for _ in 0..5 {
        let before = sent_bytes(&redis);
        let again = app.reserve("k", 10).await;
        assert_eq!(again.lasting(), first.lasting());
        read = read.min(sent_bytes(&redis) - before);
    }
    assert!(read < 10_000, "{read} bytes");
}
