//! The backlog of an outage is signed as fast as new entries, and entries for other signers delay nothing.

use std::time::{Duration, Instant};

use tokio::task::block_in_place;
use tokio::time::timeout;

use super::fixture::{EvidenceFixture, ON, measured_signer, signer, signing_config};
use crate::dispatcher::fan_out::leases;
use crate::harness::app::TestApp;
use crate::harness::evidence_keys::key;
use crate::harness::redis::RedisServer;
use crate::harness::redis_fixture::now_ms;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::ask_body;
use budget_authority::evidence::signing::SignerPass;

const SCOPE: &str = "tenant:acme";

/// Queues the first entry `count` more times, by an issuer and with traces from a number on.
const COPY: &str = "
    local row = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1][2]
    for n = ARGV[1], ARGV[1] + ARGV[2] - 1 do
        for i = 1, #row, 2 do
            if row[i] == 'inputs' then row[i + 1] = row[i + 1]:gsub('^(%d+) %d+ %x+', '%1 ' .. ARGV[3] .. string.format(' %032x', n)) end
        end
        redis.call('XADD', KEYS[1], '*', unpack(row))
    end
    return tonumber(ARGV[2])";

/// Queues `count` entries by an issuer, with traces from a number on.
async fn queue(app: &TestApp, issuer: &str, from: usize, count: usize) {
    let unsigned = app.store.keys().unsigned(app.callers[0].partition);
    let (from, count) = (from.to_string(), count.to_string());
    let copy = ["EVAL", COPY, "1", &unsigned, &from, &count, issuer];
    app.run::<i64>(&copy).await;
}

async fn decide(app: &TestApp, key: &str) {
    let decided = app.post("/v1/decide", ask_body(key, SCOPE, 1)).await;
    decided.expect(200);
}

async fn pass(issued: &mut EvidenceFixture) -> SignerPass {
    let pass = issued.signer.run_once(&leases()).await;
    pass.expect("Redis answers")
}

/// Passes until one has signed something; what it did.
async fn first_signed(issued: &mut EvidenceFixture) -> SignerPass {
    loop {
        let done = pass(issued).await;
        if done.signed > 0 {
            return done;
        }
        // Until it is time to try again.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Passes as long as there is more, without a pause; what they have signed.
async fn passes(issued: &mut EvidenceFixture) -> usize {
    let mut signed = 0;
    loop {
        let done = pass(issued).await;
        signed += done.signed;
        if !done.more {
            return signed;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e16_the_backlog_of_an_outage_is_signed_as_fast_as_new_entries_timed() {
    const NEW: usize = 2_000;
    const LEFT: usize = 10_000;
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), &[ON, LONG_REDIS_TIMEOUT].concat()).await;
    app.budget(SCOPE, 1_000, 0).await;
    decide(&app, "d").await;
    queue(&app, "1", 1, NEW - 1).await;
    let mut issued = EvidenceFixture {
        signer: signer(&app, ON),
        settings: ON.to_vec(),
        app,
    };
    let begun = Instant::now();
    assert_eq!(passes(&mut issued).await, NEW);
    let took_new = begun.elapsed();

    // Redis takes no envelope, so each entry was tried, and waits.
    decide(&issued.app, "e").await;
    queue(&issued.app, "1", NEW, LEFT - 1).await;
    let memory = async |issued: &EvidenceFixture, most: &str| {
        let full = ["CONFIG", "SET", "maxmemory", most];
        issued.app.run::<String>(&full).await;
    };
    memory(&issued, "1").await;
    assert_eq!(passes(&mut issued).await, 0);
    memory(&issued, "0").await;
    let begun = Instant::now();
    let signed = first_signed(&mut issued).await.signed + passes(&mut issued).await;
    let took = begun.elapsed();
    assert_eq!((signed, issued.envelopes().await.len()), (LEFT, NEW + LEFT));
    // Five times as many, twice over for a busy machine, and the pause before the first try.
    let most = 10 * took_new + Duration::from_secs(10);
    assert!(took < most, "{took:?}, and {NEW} new ones {took_new:?}");
}

#[tokio::test]
async fn e22_entries_for_other_signers_delay_only_by_their_reading_timed() {
    const FOREIGN: usize = 5_000;
    /// Entries that a pass reads.
    const BATCH: usize = 2_000;
    /// The pause before entries that are left are read again.
    const PAUSE: Duration = Duration::from_secs(2);
    let mut issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget(SCOPE, 1_000, 0).await;
    decide(&issued.app, "before").await;
    // Of a former server id, whose seed this dispatcher does not have.
    let registry = issued.app.store.keys().issuers();
    let issuer = format!(
        "0 open https://former.example/v1 {}",
        key('b').public().hex()
    );
    issued
        .app
        .run::<i64>(&["HSET", &registry, "2", &issuer])
        .await;
    queue(&issued.app, "2", 1, FOREIGN).await;
    decide(&issued.app, "behind").await;

    // A dispatcher that takes over reads all of them once.
    let (other, metrics) = measured_signer(&issued.app, signing_config(ON));
    issued.signer = other;
    let (mut signed, mut count, begun) = (0, 0, Instant::now());
    loop {
        let done = pass(&mut issued).await;
        (signed, count) = (signed + done.signed, count + 1);
        if !done.more {
            break;
        }
    }
    assert_eq!((signed, count), (2, FOREIGN / BATCH + 1));
    let left = metrics.entries.with_label_values(&["unknown"]);
    let read = left.get() as usize;
    // Later decisions are signed by the next pass, and none of these entries is tried again.
    decide(&issued.app, "after").await;
    let done = pass(&mut issued).await;
    assert_eq!((done.signed, done.more), (1, false));
    if begun.elapsed() < PAUSE {
        assert_eq!((read, left.get() as usize), (FOREIGN, FOREIGN));
    } else {
        // On a slow machine the pause ends meanwhile: then a pass reads at most a batch again.
        assert!(
            (FOREIGN..=FOREIGN + count * BATCH).contains(&read),
            "{read}"
        );
    }
}

/// After a failover, a stream may have entries at places that were read before.
#[tokio::test]
async fn e16_a_skipped_entry_is_signed_although_an_earlier_one_waits() {
    let mut issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget(SCOPE, 1_000, 0).await;
    decide(&issued.app, "d").await;
    let stream = issued
        .app
        .store
        .keys()
        .unsigned(issued.app.callers[0].partition);
    let rows: Vec<(String, Vec<String>)> = issued.app.run(&["XRANGE", &stream, "-", "+"]).await;
    let now = now_ms(&issued.app.store).await;
    let add = async |app: &TestApp, seconds_ago: i64, issuer: &str| {
        let place = format!("{}-0", now - seconds_ago * 1_000);
        let mut words = vec!["XADD".to_owned(), stream.clone(), place];
        words.extend(rows[0].1.iter().map(|field| {
            let trace = field.strip_prefix("1 1 ");
            trace.map_or_else(|| field.clone(), |trace| format!("1 {issuer} {trace}"))
        }));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        app.run::<String>(&words).await;
    };
    issued.app.run::<i64>(&["DEL", &stream]).await;
    add(&issued.app, 400, "77").await;
    add(&issued.app, 1, "1").await;
    issued.signer = signer(&issued.app, ON);
    assert_eq!(issued.sign().await.signed, 1);
    // Its envelope is found, so that only the other one is known.
    pass(&mut issued).await;
    assert_eq!(issued.queued().await, 1);
    issued.app.run::<i64>(&["DEL", &stream]).await;
    add(&issued.app, 400, "77").await;
    add(&issued.app, 390, "1").await;
    let signed = timeout(Duration::from_secs(60), first_signed(&mut issued)).await;
    assert_eq!(signed.expect("it is signed").signed, 1);
}
