//! The gauge of the oldest unsigned entry, by which operators know that a seed is needed no more.

use std::time::Instant;

use budget_authority::dispatcher::BacklogGauge;
use budget_authority::dispatcher::sweep::ClockWatch;
use budget_authority::evidence::signing::{Signer, SignerMetrics};

use super::fixture::{EvidenceFixture, ON, clock_watch, measured_signer, signing_config};
#[cfg(target_os = "linux")]
use crate::dispatcher::clocks::JumpingRedis;
use crate::dispatcher::fan_out::leases;
use crate::harness::app::TestApp;
use crate::harness::redis_fixture::now_ms;
#[cfg(target_os = "linux")]
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::ask_body;

const SCOPE: &str = "tenant:acme";

/// A service with one unsigned decision of this age in seconds, by an issuer of this number.
async fn waiting(seconds: i64, issuer: &str) -> EvidenceFixture {
    let issued = EvidenceFixture::spawn(&[]).await;
    let app = &issued.app;
    app.budget(SCOPE, 1_000, 0).await;
    let decided = app.post("/v1/decide", ask_body("d", SCOPE, 1)).await;
    decided.expect(200);
    let stream = app.store.keys().unsigned(app.callers[0].partition);
    let rows: Vec<(String, Vec<String>)> = app.run(&["XRANGE", &stream, "-", "+"]).await;
    app.run::<i64>(&["DEL", &stream]).await;
    let at_ms = now_ms(&app.store).await - seconds * 1_000;
    let place = format!("{at_ms}-0");
    let mut words = vec!["XADD".to_owned(), stream, place];
    words.extend(rows[0].1.iter().map(|field| {
        let trace = field.strip_prefix("1 1 ");
        trace.map_or_else(|| field.clone(), |trace| format!("1 {issuer} {trace}"))
    }));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    app.run::<String>(&words).await;
    issued
}

/// A signer, its metrics, and the gauge of its backlog.
struct Measured {
    signer: Signer,
    metrics: SignerMetrics,
    watch: BacklogGauge,
}

impl Measured {
    fn new(app: &TestApp) -> Self {
        Self::by(app, clock_watch())
    }

    /// By a clock of the test's choice.
    fn by(app: &TestApp, clock: ClockWatch) -> Self {
        let (signer, metrics) = measured_signer(app, signing_config(ON));
        Self {
            signer,
            watch: BacklogGauge::new(app.store.clone(), clock, metrics.clone()),
            metrics,
        }
    }

    /// After one pass of the signer.
    async fn signed(&mut self) -> f64 {
        let signed = self.signer.run_once(&leases()).await;
        signed.expect("Redis answers");
        self.read().await
    }

    async fn read(&mut self) -> f64 {
        self.watch.run_once(&leases()).await.expect("Redis answers");
        self.metrics.oldest_unsigned_seconds.get()
    }
}

#[tokio::test]
async fn e22_an_entry_of_an_unknown_issuer_raises_the_gauge_at_once() {
    let issued = waiting(100, "77").await;
    let mut measured = Measured::new(&issued.app);
    for _ in 0..2 {
        let age = measured.signed().await;
        assert!((99.0..200.0).contains(&age), "{age}");
    }
    let entries = &measured.metrics.entries;
    let unknown = entries.with_label_values(&["unknown"]).get();
    assert_eq!((unknown, issued.queued().await), (1, 1));
}

#[tokio::test]
async fn e22_an_entry_ahead_of_the_clock_ages_from_when_it_was_seen() {
    let issued = waiting(-3_600, "77").await;
    let mut measured = Measured::new(&issued.app);
    let begun = Instant::now();
    measured.read().await;
    let age = measured.read().await;
    let most = begun.elapsed().as_secs_f64();
    assert!(age > 0.0 && age <= most, "{age} of {most}");
    // Another dispatcher has signed it.
    let stream = issued
        .app
        .store
        .keys()
        .unsigned(issued.app.callers[0].partition);
    issued.app.run::<i64>(&["DEL", &stream]).await;
    assert_eq!(measured.read().await, 0.0);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e22_entries_queued_before_a_clock_jump_raise_no_alarm() {
    let redis = tokio::task::block_in_place(JumpingRedis::start);
    let app = TestApp::spawn_on(&redis.server.url(), &[ON, LONG_REDIS_TIMEOUT].concat()).await;
    app.budget(SCOPE, 1_000, 0).await;
    let decided = app.post("/v1/decide", ask_body("d", SCOPE, 1)).await;
    decided.expect(200);
    let clock = clock_watch();
    clock.time(&app.store).await.expect("Redis answers");
    redis.jump(3_600);
    let mut measured = Measured::by(&app, clock);
    for _ in 0..2 {
        assert!(measured.read().await < 60.0, "it was just queued");
    }
}

#[tokio::test]
async fn e20_the_gauge_is_0_once_all_is_signed() {
    let mut issued = waiting(400, "1").await;
    let mut watch = Measured::new(&issued.app);
    for (is_signed, age) in [(false, 399.0..500.0), (true, 0.0..0.001)] {
        if is_signed {
            assert_eq!(Measured::new(&issued.app).signed().await, 0.0);
        }
        let found = watch.read().await;
        assert!(age.contains(&found), "{found}");
    }
    assert_eq!(issued.sign().await.signed, 0);
}

#[tokio::test]
async fn e20_an_entry_that_a_failing_pass_did_not_reach_is_measured() {
    let issued = waiting(400, "1").await;
    let mut measured = Measured::new(&issued.app);
    // A pass that cannot read who issues reaches no entry.
    let registry = issued.app.store.keys().issuers();
    issued.app.run::<i64>(&["DEL", &registry]).await;
    issued.app.run::<String>(&["SET", &registry, "x"]).await;
    assert!(measured.signer.run_once(&leases()).await.is_err());
    let age = measured.read().await;
    assert!((399.0..500.0).contains(&age), "{age}");
}
