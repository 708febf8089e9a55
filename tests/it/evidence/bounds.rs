//! The signer reads and writes a bounded number of bytes at once, however large requests are.

use budget_authority::domain::log_entry::EntryId;
use budget_authority::evidence::statements::FIELDS;
use budget_authority::store::evidence::unsigned::{ReadBounds, UnsignedRead};
use serde_json::json;

use super::fixture::{EvidenceFixture, ON, signer};
use crate::dispatcher::fan_out::leases;
use crate::harness::app::TestApp;
use crate::harness::redis::RedisServer;
use crate::harness::runtime_calls::{ask_body, with};

const LARGE: &[&str] = &["--metadata-bytes", "1048576"];

/// Reservations of each of two tenants, with metadata of this size.
async fn reserve(issued: &EvidenceFixture, count: usize, bytes: usize) {
    for n in 0..count {
        for (key, tenant) in issued.app.keys.iter().zip(["acme", "bolt"]) {
            let scope = format!("tenant:{tenant}");
            let metadata = json!({"metadata": {"x": "y".repeat(bytes)}});
            let body = with(ask_body(&format!("k{n} {bytes}"), &scope, 1), metadata);
            let held = issued.app.post_with(key, "/v1/reservations", &body).await;
            held.expect(200);
        }
    }
}

#[tokio::test]
async fn e16_large_requests_are_signed_a_few_at_once() {
    // Redis closes a connection for which more than this is ready to be sent.
    let most = ["--client-output-buffer-limit", "normal", "3mb", "0", "0"];
    let redis = tokio::task::spawn_blocking(move || RedisServer::start_with(&most));
    let redis = redis.await.expect("a server");
    let settings = [ON, LARGE].concat();
    let app = TestApp::spawn_on(&redis.url(), &settings).await;
    app.budget("tenant:acme", 1_000, 0).await;
    app.budget_of(1, "tenant:bolt", 1_000).await;
    let mut issued = EvidenceFixture {
        signer: signer(&app, ON),
        settings,
        app,
    };
    reserve(&issued, 2, 100).await;
    reserve(&issued, 8, 700_000).await;
    reserve(&issued, 2, 200).await;
    let (mut signed, mut passes) = (0, 0);
    while signed < 24 {
        let pass = issued.signer.run_once(&leases()).await;
        let pass = pass.expect("no reply is too long");
        (signed, passes) = (signed + pass.signed, passes + 1);
        assert!(pass.more || signed == 24, "{pass:?}");
    }
    assert!(passes > 4, "{passes}");
}

#[tokio::test]
async fn a_read_is_bounded_in_bytes_but_has_at_least_one_entry() {
    let issued = EvidenceFixture::spawn(LARGE).await;
    issued.app.budget("tenant:acme", 1_000, 0).await;
    for (n, bytes) in [10, 10, 50_000, 10].into_iter().enumerate() {
        let metadata = json!({"metadata": {"x": "y".repeat(bytes)}});
        let body = with(ask_body(&format!("k{n}"), "tenant:acme", 1), metadata);
        issued.app.post("/v1/reservations", body).await.expect(200);
    }
    let partition = issued.app.callers[0].partition;
    let read = async |after: EntryId, rows, bytes, at_least_one| -> UnsignedRead {
        let bounds = ReadBounds {
            rows,
            bytes,
            at_least_one,
        };
        let places = [(partition, after)];
        let read = issued.app.store.read_unsigned(&places, bounds, &FIELDS);
        let mut read = read.await.expect("Redis answers");
        read.remove(0).expect("the node responds")
    };
    let all = read(EntryId::ZERO, 9, 1 << 20, false).await;
    let places: Vec<EntryId> = all.entries.iter().map(|entry| entry.place.1).collect();
    assert_eq!((places.len(), all.next), (4, None));
    assert!(all.entries.iter().all(|entry| !entry.record.is_empty()));
    for (after, rows, bytes, at_least_one, count) in [
        (EntryId::ZERO, 9, 20_000, false, 2),
        (EntryId::ZERO, 1, 20_000, false, 1),
        (EntryId::ZERO, 0, 20_000, true, 0),
        (places[1], 9, 20_000, false, 0),
        (places[1], 9, 20_000, true, 1),
        (places[2], 9, 20_000, false, 1),
    ] {
        let found = read(after, rows, bytes, at_least_one).await;
        let begun = places.iter().filter(|place| **place <= after).count();
        let expected = &places[begun..begun + count];
        let got: Vec<EntryId> = found.entries.iter().map(|entry| entry.place.1).collect();
        assert_eq!(got, expected, "{after} {rows} {bytes}");
        assert_eq!(found.next, places.get(begun + count).copied());
    }
    let first = issued.app.store.first_unsigned(&[partition]).await;
    assert_eq!(first.expect("Redis answers"), [Some(places[0])]);
}
