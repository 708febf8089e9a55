//! The signer loses no entry and doubles none, whatever happens to it or to what it made.

use std::time::{Duration, Instant};

use tokio::task::block_in_place;

use super::fixture::{EvidenceFixture, ON, measured_signer_on, signer, signing_config};
use crate::dispatcher::fan_out::leases;
use crate::dispatcher::retention::{retention, run};
use crate::harness::app::TestApp;
use crate::harness::past_day::{End, PastDay};
use crate::harness::redis::{RedisServer, shared};
use crate::harness::replicas::RedisPair;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::ask_body;
use crate::harness::store;
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::log_entry::EntryId;
use budget_authority::evidence::signing::SignerPass;
use budget_authority::store::{RedisOptions, Store, StoreMetrics};

const SCOPE: &str = "tenant:acme";

/// A service with this many reservations.
async fn reserved(count: usize) -> EvidenceFixture {
    let issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget(SCOPE, 1_000_000, 0).await;
    for n in 0..count {
        let body = ask_body(&format!("k{n}"), SCOPE, 1);
        issued.app.post("/v1/reservations", body).await.expect(200);
    }
    issued
}

#[tokio::test]
async fn e16_an_entry_is_removed_once_its_envelope_is_written() {
    let mut issued = reserved(5).await;
    let expected = SignerPass {
        signed: 5,
        ..SignerPass::default()
    };
    assert_eq!(issued.sign().await, expected);
    assert_eq!(issued.queued().await, 0);
    assert_eq!(issued.envelopes().await.len(), 5);
}

/// As after a crash between the envelope and the removal of its entry.
#[tokio::test]
async fn e16_a_remaining_entry_is_signed_again_to_the_same_bytes() {
    let mut issued = reserved(3).await;
    let keys = issued.app.store.keys();
    let stream = keys.unsigned(issued.app.callers[0].partition);
    let copy = format!("{stream}:copy");
    issued.app.run::<i64>(&["COPY", &stream, &copy]).await;
    issued.sign().await;
    let mut envelopes = Vec::new();
    for key in issued.envelopes().await {
        envelopes.push((issued.app.run::<String>(&["GET", &key]).await, key));
    }
    assert_eq!(envelopes.len(), 3);
    issued.app.run::<String>(&["RENAME", &copy, &stream]).await;
    issued.app.run::<i64>(&["DEL", &envelopes[0].1]).await;
    issued.signer = signer(&issued.app, ON);
    assert_eq!(issued.sign().await.signed, 3);
    assert_eq!(issued.queued().await, 0);
    for (bytes, key) in envelopes {
        assert_eq!(issued.app.run::<String>(&["GET", &key]).await, bytes);
    }
}

#[tokio::test]
async fn e02_only_a_changed_entry_is_quarantined() {
    let mut issued = reserved(2).await;
    let held = issued
        .app
        .post("/v1/reservations", ask_body("x", SCOPE, 7))
        .await
        .expect(200);
    let key = issued.app.store.keys().reservation(
        issued.app.callers[0].partition,
        held.text("/reservation_id"),
    );
    // Another request under the same id.
    issued
        .app
        .run::<i64>(&["HSET", &key, "action_name", "another"])
        .await;
    let pass = issued.sign().await;
    assert_eq!((pass.signed, pass.quarantined), (2, 1));
    assert_eq!(issued.queued().await, 0);
    let key = issued
        .app
        .store
        .keys()
        .unsignable(issued.app.callers[0].partition);
    let rows: Vec<(String, Vec<String>)> = issued.app.run(&["XRANGE", &key, "-", "+"]).await;
    let [(_, fields)] = &rows[..] else {
        panic!("{rows:?}")
    };
    assert!(
        fields.contains(&"why".to_owned()) && fields.contains(&"entry".to_owned()),
        "{fields:?}"
    );
}

#[tokio::test]
async fn e02_an_entry_of_an_unknown_format_or_issuer_waits() {
    let mut issued = reserved(1).await;
    let decided = issued.app.post("/v1/decide", ask_body("d", SCOPE, 1)).await;
    decided.expect(200);
    let keys = issued.app.store.keys().clone();
    let stream = keys.unsigned(issued.app.callers[0].partition);
    let rows: Vec<(String, Vec<String>)> = issued.app.run(&["XRANGE", &stream, "-", "+"]).await;
    // The same decision by somebody else, and in another form.
    for (format, issuer) in [("1", "77"), ("4", "1")] {
        let fields = rows[1].1.iter().map(|field| {
            let trace = field.strip_prefix("1 1 ");
            trace.map_or_else(
                || field.clone(),
                |trace| format!("{format} {issuer} {trace}"),
            )
        });
        let fields: Vec<String> = fields.collect();
        let words = ["XADD", &stream, "*"].into_iter().map(str::to_owned);
        let entry: Vec<String> = words.chain(fields).collect();
        let entry: Vec<&str> = entry.iter().map(String::as_str).collect();
        issued.app.run::<String>(&entry).await;
    }
    let pass = issued.sign().await;
    assert_eq!((pass.signed, pass.quarantined), (2, 0));
    assert_eq!(issued.queued().await, 2);
}

#[tokio::test]
async fn e16_an_entry_that_could_not_be_removed_is_removed_later() {
    let redis = tokio::task::spawn_blocking(RedisServer::start);
    let redis = redis.await.expect("a server");
    let app = TestApp::spawn_on(&redis.url(), &[ON, LONG_REDIS_TIMEOUT].concat()).await;
    app.budget(SCOPE, 1_000, 0).await;
    let body = ask_body("k", SCOPE, 1);
    app.post("/v1/reservations", body).await.expect(200);
    let mut issued = EvidenceFixture {
        signer: signer(&app, ON),
        settings: ON.to_vec(),
        app,
    };
    let allow = async |issued: &EvidenceFixture, right: &str| {
        let user = ["ACL", "SETUSER", "default", right];
        issued.app.run::<String>(&user).await;
    };
    allow(&issued, "-xdel").await;
    let pass = issued.signer.run_once(&leases()).await;
    assert_eq!(pass.expect("Redis answers").signed, 1);
    assert_eq!(issued.queued().await, 1);
    allow(&issued, "+xdel").await;
    eventually_signed(&mut issued).await;
    assert_eq!(issued.envelopes().await.len(), 1);
}

/// Passes until nothing is queued.
async fn eventually_signed(issued: &mut EvidenceFixture) {
    let begun = Instant::now();
    while issued.queued().await > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "all is signed");
        // Until it is time to sign again.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let pass = issued.signer.run_once(&leases()).await;
        pass.expect("Redis answers");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e16_with_waiting_an_entry_is_removed_once_replicas_have_its_envelope() {
    let pair = block_in_place(RedisPair::start);
    let app = TestApp::spawn_on(&pair.master.url(), &[ON, LONG_REDIS_TIMEOUT].concat()).await;
    app.budget(SCOPE, 1_000, 0).await;
    let body = ask_body("k", SCOPE, 1);
    app.post("/v1/reservations", body).await.expect(200);
    let stream = app.store.keys().unsigned(app.callers[0].partition);
    // There is one replica.
    for (replicas, signed) in [(2, 0), (1, 1)] {
        let mut options = RedisOptions::new(pair.master.url());
        options.wait = replicas;
        // It waits for a quarter of this.
        options.timeout = Duration::from_secs(8);
        let (keys, dialect) = (app.store.keys().clone(), Dialect::Service.as_str());
        let metrics = StoreMetrics::register(&prometheus::Registry::new());
        let store = Store::new(&options, keys, dialect, metrics.expect("distinct names"));
        let store = store.expect("a URL");
        let (mut signer, _) = measured_signer_on(store, signing_config(ON));
        let pass = signer.run_once(&leases()).await;
        assert_eq!(pass.expect("Redis answers").signed, signed, "{replicas}");
        let queued: i64 = app.run(&["XLEN", &stream]).await;
        assert_eq!(queued, 1 - signed as i64, "{replicas}");
    }
}

#[tokio::test]
async fn e14_purge_keeps_records_that_ended_after_the_oldest_unsigned_entry() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 40).await;
    let hour_ms = |hour: i64| past.day.start_ms() + hour * 3_600_000;
    let [early, between, late] = [1, 2, 3].map(hour_ms);
    past.record(End::Released, early).await;
    past.record(
        End::Committed {
            charged: 5,
            debt: 0,
        },
        late,
    )
    .await;
    let keys = store.keys().clone();
    let (unsigned, unsignable) = (
        keys.unsigned(past.lease.partition),
        keys.unsignable(past.lease.partition),
    );
    let place = format!("{between}-0");
    past.tenant
        .run::<String>(&["XADD", &unsigned, &place, "kind", "end"])
        .await;
    let retention = retention(&store);
    assert_eq!(run(&retention, past.lease).await.reservations, 1);
    // In quarantine it holds the record just as well, behind others that were queued later.
    let ids = [
        format!("{between}-0"),
        format!("{late}-7"),
        format!("{late}-8"),
    ];
    for id in &ids[1..] {
        past.tenant
            .run::<String>(&["XADD", &unsigned, id, "kind", "end"])
            .await;
    }
    for id in [&ids[1], &ids[0], &ids[2]] {
        let place = EntryId::parse(id).expect("an id");
        let moved = store.quarantine_unsigned((past.lease.partition, place), "a reason");
        moved.await.expect("it is moved");
    }
    assert_eq!(past.tenant.run::<i64>(&["XLEN", &unsigned]).await, 0);
    assert_eq!(past.tenant.run::<i64>(&["XLEN", &unsignable]).await, 3);
    let days = keys.days(past.lease.partition);
    for removed in [0, 1] {
        past.tenant
            .run::<i64>(&["ZADD", &days, "0", &past.member()])
            .await;
        assert_eq!(run(&retention, past.lease).await.reservations, removed);
        past.tenant.run::<i64>(&["UNLINK", &unsignable]).await;
    }
}

#[tokio::test]
async fn e14_purge_keeps_records_queued_after_the_clock_was_set_back() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 40).await;
    let keys = store.keys().clone();
    let unsigned = keys.unsigned(past.lease.partition);
    let start_ms = past.day.start_ms();
    let (ended_ms, ahead_ms) = (start_ms + 3_600_000, start_ms + 10 * 3_600_000);
    // Both ended in the same hour, by their records; the entries came behind one of a clock that was ahead.
    let [first, second] = [1, 2].map(|sequence| format!("{ahead_ms}-{sequence}"));
    for (place, more) in [(&first, 0), (&second, 1)] {
        let id = past.record(End::Released, ended_ms + more).await;
        let record = past.tenant.reservation_key(&id);
        let queued = ["HSET", &record, "queued", place];
        past.tenant.run::<i64>(&queued).await;
        let entry = ["XADD", &unsigned, place, "kind", "end"];
        past.tenant.run::<String>(&entry).await;
    }
    let retention = retention(&store);
    let days = keys.days(past.lease.partition);
    for (gone, removed) in [(None, 0), (Some(&first), 1), (Some(&second), 1)] {
        if let Some(gone) = gone {
            past.tenant.run::<i64>(&["XDEL", &unsigned, gone]).await;
        }
        let look = ["ZADD", &days, "0", &past.member()];
        past.tenant.run::<i64>(&look).await;
        let purged = run(&retention, past.lease).await.reservations;
        assert_eq!(purged, removed, "{gone:?}");
    }
}

/// The time of an entry may be a little behind that of its record.
#[tokio::test]
async fn e14_purge_keeps_records_that_ended_just_before_their_entry_was_queued() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 40).await;
    let unsigned = store.keys().unsigned(past.lease.partition);
    let ended_ms = past.day.start_ms() + 3_600_000;
    past.record(End::Released, ended_ms).await;
    let place = format!("{}-0", ended_ms + 3);
    let entry = ["XADD", &unsigned, &place, "kind", "end"];
    past.tenant.run::<String>(&entry).await;
    let purged = run(&retention(&store), past.lease).await.reservations;
    assert_eq!(purged, 0);
}
