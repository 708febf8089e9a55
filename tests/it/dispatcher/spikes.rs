//! An unusual share of denials, expiries or refused keys emits one event, whoever looks and however often.

#![cfg(target_os = "linux")]

use std::time::Duration;

use budget_authority::dispatcher::DueEvents;
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::store::Lease;
use budget_authority::store::dispatcher::traffic::Tally;
use tokio::task::block_in_place;

use super::clocks::JumpingRedis;
use crate::harness::due_events::due_events;
use crate::harness::redis_fixture::{Fields, RedisFixture};
use crate::harness::store;

/// A tenant whose time the test chooses.
pub(super) struct SpikeFixture {
    pub redis: RedisFixture,
    jumping: Option<JumpingRedis>,
    tenant: Option<TenantId>,
    /// The start of a future bucket, in seconds since the epoch.
    start: i64,
    pub lease: Lease,
    spikes: DueEvents,
}

/// A tally of denied creates.
pub(super) fn denied(denied: u64, decided: u64) -> Tally {
    Tally {
        denied,
        decided,
        ..Tally::default()
    }
}

impl SpikeFixture {
    /// On a Redis whose clock is at the start of a bucket until [`SpikeFixture::at`] moves it.
    pub async fn start(tenant: Option<&str>) -> Self {
        let jumping = block_in_place(JumpingRedis::start);
        let redis = RedisFixture::on(store(&jumping.server.url()));
        let mut watched = Self::on(redis, tenant).await;
        watched.jumping = Some(jumping);
        watched.at(0).await;
        watched
    }

    pub async fn on(redis: RedisFixture, tenant: Option<&str>) -> Self {
        let tenant = tenant.map(|tenant| TenantId::parse(tenant).expect("an id"));
        let tomorrow = redis.store.today().plus(1);
        let partition = tenant
            .as_ref()
            .map_or(Partition::FIRST, TenantId::partition);
        let lease = redis.lease_of(partition, "d", Duration::from_secs(3_600));
        Self {
            lease: lease.await,
            spikes: due_events(&redis.store),
            start: tomorrow.start_ms() / 1_000 + 43_200,
            redis,
            jumping: None,
            tenant,
        }
    }

    /// Sets Redis's clock to this many seconds after the start of a future bucket.
    pub async fn at(&self, seconds: i64) {
        let jumping = self.jumping.as_ref().expect("a clock of its own");
        let local = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let local = local.expect("a clock").as_secs() as i64;
        jumping.jump(self.start + seconds - local);
        self.redis.store.node_times().await.expect("Redis answers");
    }

    pub async fn count(&self, tally: Tally) {
        let seen = vec![(self.tenant.clone(), tally)];
        let counted = self.redis.store.count_traffic(seen).await;
        counted.outcome.expect("Redis answers");
        assert_eq!(counted.left, []);
    }

    /// Counts expired reservations, as the sweep does, in a bucket with nothing else.
    pub async fn expire(&self, expired: u64) {
        let (keys, partition) = (self.redis.store.keys(), self.lease.partition);
        let key = keys.traffic(partition, self.name());
        let now_ms = self.redis.now_ms().await;
        let bucket = now_ms / 5_000;
        let counts = format!("{bucket} 0 0 {expired} {expired} 0 0");
        let field = format!("5.{}", bucket % 60);
        self.redis.set(&key, &[(&field, &counts)]).await;
        let due_ms = (now_ms / 10_000 + 1) * 10_000;
        let index = keys.traffic_due(partition);
        let due = ["ZADD", &index, "LT", &due_ms.to_string(), self.name()];
        self.redis.run::<i64>(&due).await;
    }

    /// How many events an evaluation emits.
    pub async fn judge(&self) -> i64 {
        let pass = self.spikes.run_once(&[self.lease], |_| {}).await;
        let pass = pass.expect("Redis answers");
        assert_eq!(pass.failed, 0);
        pass.done
    }

    fn name(&self) -> &str {
        self.tenant.as_ref().map_or("__system__", TenantId::as_str)
    }

    pub async fn events(&self) -> Vec<Fields> {
        let keys = self.redis.store.keys();
        let log = |day| keys.events(self.lease.partition, self.name(), day);
        self.redis.log_facts(log).await
    }

    /// Watches limits besides the usual ones.
    pub async fn watch(&self, words: &str) {
        let key = self.redis.store.keys();
        let key = key.tenant(self.lease.partition, self.name());
        let fields = [("status", "ACTIVE"), ("watched_rates", words)];
        self.redis.set(&key, &fields).await;
    }

    /// When the tenant is evaluated next; `None` if nothing of it is counted.
    pub async fn due_ms(&self) -> Option<i64> {
        let index = self.redis.store.keys().traffic_due(self.lease.partition);
        self.redis.run(&["ZSCORE", &index, self.name()]).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w29_a_spike_emits_once_until_its_limit_is_met_again() {
    let acme = SpikeFixture::start(Some("acme")).await;
    acme.count(denied(2, 20)).await;
    acme.at(10).await;
    assert_eq!(acme.judge().await, 0, "10 % are not above 10 %");
    acme.count(denied(2, 4)).await;
    acme.at(20).await;
    assert_eq!(acme.judge().await, 1);
    let fired = &acme.events().await[0];
    let fact = |name: &str| fired.get(name).map_or("", String::as_str);
    assert_eq!(fact("type"), "reservation.denial_rate_spike");
    assert_eq!(
        (fact("source"), fact("actor")),
        ("anomaly-detector", "system")
    );
    assert_eq!(
        (fact("data.occurrences"), fact("data.sample_count")),
        ("4", "24")
    );
    assert_eq!(
        (fact("data.threshold_rate"), fact("data.window_seconds")),
        ("0.1", "300")
    );
    assert!(!fired.contains_key("scope") && !fired.contains_key("request_id"));
    // It stays above the threshold for longer than the window: no rising edge.
    for step in 3..40 {
        acme.at(10 * step).await;
        acme.count(denied(1, 2)).await;
        assert_eq!(acme.judge().await, 0, "{step}");
    }
    acme.at(400).await;
    acme.count(denied(0, 1_000)).await;
    assert_eq!(acme.judge().await, 0);
    acme.at(405).await;
    acme.count(denied(1_000, 1_000)).await;
    assert_eq!(acme.judge().await, 0, "not yet the time of an evaluation");
    acme.at(410).await;
    assert_eq!(acme.judge().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn w29_a_limit_emits_at_most_once_per_window() {
    let acme = SpikeFixture::start(Some("acme")).await;
    acme.count(denied(10, 10)).await;
    acme.at(10).await;
    assert_eq!(acme.judge().await, 1);
    // Met in between, exceeded again: it is emitted when the window of the first event is over, if it is exceeded then.
    acme.count(denied(0, 1_000)).await;
    acme.at(20).await;
    assert_eq!(acme.judge().await, 0);
    acme.at(305).await;
    acme.count(denied(500, 1_000)).await;
    acme.at(309).await;
    assert_eq!(acme.judge().await, 0);
    acme.at(320).await;
    assert_eq!(acme.judge().await, 1);
    assert_eq!(acme.events().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn expiries_count_once_the_commits_of_their_time_do() {
    let acme = SpikeFixture::start(Some("acme")).await;
    let committed = |ended| Tally {
        ended,
        ..Tally::default()
    };
    // Replicas report commits up to 5 seconds later.
    acme.at(8).await;
    acme.expire(11).await;
    acme.at(10).await;
    assert_eq!(acme.judge().await, 0);
    acme.at(12).await;
    acme.count(committed(400)).await;
    acme.at(20).await;
    assert_eq!(acme.judge().await, 0, "11 of 411 are usual");
    acme.at(28).await;
    acme.expire(100).await;
    acme.at(32).await;
    acme.count(committed(100)).await;
    acme.at(40).await;
    assert_eq!(acme.judge().await, 1);
    let fired = acme.events().await.remove(0);
    assert_eq!(fired["type"], "reservation.expiry_rate_spike");
    assert_eq!(
        (
            fired["data.occurrences"].as_str(),
            fired["data.sample_count"].as_str()
        ),
        ("111", "611")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_samples_emit_nothing_and_past_spikes_are_forgotten() {
    let acme = SpikeFixture::start(Some("acme")).await;
    acme.count(denied(9, 9)).await;
    acme.at(10).await;
    assert_eq!(acme.judge().await, 0);
    assert!(acme.due_ms().await.is_some());
    acme.count(denied(0, 1)).await;
    acme.at(20).await;
    assert_eq!(acme.judge().await, 1);
    acme.at(310).await;
    assert_eq!(acme.judge().await, 0);
    assert!(
        acme.due_ms().await.is_some(),
        "its event is not as old as the window"
    );
    acme.at(330).await;
    assert_eq!((acme.judge().await, acme.due_ms().await), (0, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_tenants_with_denials_expiries_or_refusals_are_examined() {
    let acme = SpikeFixture::start(Some("acme")).await;
    let well = Tally {
        decided: 1_000,
        ended: 1_000,
        tried: 1_000,
        ..Tally::default()
    };
    acme.count(well).await;
    assert_eq!(acme.due_ms().await, None);
    let refused = Tally {
        refused: 1,
        ..Tally::default()
    };
    acme.count(refused).await;
    assert!(acme.due_ms().await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn dispatchers_that_overlap_and_repeat_emit_one_event() {
    let acme = SpikeFixture::start(Some("acme")).await;
    acme.count(denied(20, 20)).await;
    acme.at(10).await;
    let others: Vec<DueEvents> = (0..4).map(|_| due_events(&acme.redis.store)).collect();
    let leases = [acme.lease];
    let mut emitted = 0;
    for _ in 0..3 {
        let [a, b, c, d] = &others[..] else {
            panic!("four")
        };
        let passes = tokio::join!(
            a.run_once(&leases, |_| {}),
            b.run_once(&leases, |_| {}),
            c.run_once(&leases, |_| {}),
            d.run_once(&leases, |_| {})
        );
        for pass in [passes.0, passes.1, passes.2, passes.3] {
            emitted += pass.expect("Redis answers").done;
        }
    }
    assert_eq!((emitted, acme.events().await.len()), (1, 1));
    // A dispatcher that has lost the partition writes nothing.
    acme.count(denied(0, 10_000)).await;
    acme.at(20).await;
    let old = Lease {
        token: acme.lease.token - 1,
        ..acme.lease
    };
    let mut lost = Vec::new();
    let pass = others[0].run_once(&[old], |lease| lost.push(lease)).await;
    assert_eq!((pass.expect("Redis answers").done, lost.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_step_neither_floods_nor_silences_events() {
    let acme = SpikeFixture::start(Some("acme")).await;
    acme.at(7_200).await;
    acme.count(denied(20, 20)).await;
    acme.at(7_210).await;
    assert_eq!(acme.judge().await, 1);
    // An hour back: the event that was emitted counts as emitted now.
    acme.at(3_600).await;
    acme.count(denied(20, 20)).await;
    assert_eq!(acme.judge().await, 0);
    for step in 1..=29 {
        acme.at(3_600 + 10 * step).await;
        acme.count(denied(0, 100)).await;
        assert_eq!(acme.judge().await, 0, "{step}");
    }
    acme.at(3_910).await;
    acme.count(denied(2_000, 2_000)).await;
    acme.at(3_920).await;
    assert_eq!(acme.judge().await, 1);
    // Ten minutes forward: the windows are empty; what happens then is judged as ever.
    acme.at(4_520).await;
    assert_eq!(acme.judge().await, 0);
    acme.count(denied(20, 20)).await;
    acme.at(4_530).await;
    assert_eq!(acme.judge().await, 1);
    assert_eq!(acme.events().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn spikes_are_detected_for_suspended_but_not_for_closed_tenants() {
    for (status, expected) in [("CLOSED", 0), ("SUSPENDED", 1)] {
        let acme = SpikeFixture::start(Some("acme")).await;
        let key = acme.redis.store.keys();
        let key = key.tenant(acme.lease.partition, "acme");
        acme.redis.set(&key, &[("status", status)]).await;
        acme.count(denied(20, 20)).await;
        acme.at(10).await;
        assert_eq!(acme.judge().await, expected, "{status}");
        assert_eq!(acme.due_ms().await.is_some(), expected == 1, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spikes_of_refused_keys_are_detected_for_tenant_and_operator() {
    let refused = Tally {
        tried: 20,
        refused: 3,
        ..denied(20, 20)
    };
    let acme = SpikeFixture::start(Some("acme")).await;
    acme.count(refused).await;
    acme.at(10).await;
    assert_eq!(acme.judge().await, 2);
    let types: Vec<_> = acme
        .events()
        .await
        .into_iter()
        .map(|it| it["type"].clone())
        .collect();
    assert_eq!(
        types,
        [
            "reservation.denial_rate_spike",
            "api_key.auth_failure_rate_spike"
        ]
    );
    let nobody = SpikeFixture::start(None).await;
    nobody.count(refused).await;
    nobody.at(10).await;
    assert_eq!(nobody.judge().await, 1);
    assert_eq!(
        nobody.events().await[0]["type"],
        "api_key.auth_failure_rate_spike"
    );
}
