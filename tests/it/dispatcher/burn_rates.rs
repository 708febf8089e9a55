//! A ledger with an unusual burn rate emits one event; only watched ledgers are counted.

#![cfg(target_os = "linux")]

use std::time::Duration;

use budget_authority::domain::amount::Unit;
use budget_authority::domain::ids::TenantId;
use budget_authority::store::Lease;
use budget_authority::store::dispatcher::traffic::Charges;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

use super::fan_out::{fan_out, follow, queued_to};
use super::spikes::SpikeFixture;
use crate::admin::webhooks::subscriptions::{HOOKS, URL, hooked, made};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::due_events::due_events;
use crate::harness::eventually;
use crate::harness::runtime_calls::ledger;

const SCOPE: &str = "tenant:acme/app:chat";

/// The tenant `acme`, which watches limits.
async fn watching(words: &str) -> SpikeFixture {
    let acme = SpikeFixture::start(Some("acme")).await;
    acme.watch(words).await;
    let key = acme.redis.store.keys();
    let key = key.budget(acme.lease.partition, "acme", "TOKENS", SCOPE);
    acme.redis.set(&key, &[("remaining", "500")]).await;
    acme
}

async fn charge(acme: &SpikeFixture, scope: &str, amount: u128) {
    let tenant = TenantId::parse("acme").expect("an id");
    let charges = Charges::from([((Unit::Tokens, scope.to_owned()), amount)]);
    let counted = acme.redis.store.count_burn(&tenant, &charges);
    counted.await.expect("Redis answers");
}

async fn judge(acme: &SpikeFixture) -> i64 {
    let worker = due_events(&acme.redis.store);
    let pass = worker.run_once(&[acme.lease], |_| {}).await;
    let pass = pass.expect("Redis answers");
    assert_eq!(pass.failed, 0);
    pass.done
}

/// Charges 100 in each of this many windows of a minute, and leaves the clock after the last charge.
async fn usual(acme: &SpikeFixture, windows: i64) {
    for window in 0..windows {
        acme.at(60 * window + 1).await;
        charge(acme, SCOPE, 100).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_high_burn_rate_emits_once_while_it_lasts() {
    let acme = watching("burn_rate:3:60:").await;
    usual(&acme, 4).await;
    acme.at(187).await;
    assert_eq!(judge(&acme).await, 0);
    acme.at(241).await;
    charge(&acme, SCOPE, 300).await;
    acme.at(247).await;
    assert_eq!(judge(&acme).await, 0, "three times as much is not more");
    charge(&acme, SCOPE, 700).await;
    assert_eq!(judge(&acme).await, 0, "a tenth of a window is not over");
    acme.at(253).await;
    assert_eq!(judge(&acme).await, 1);
    let fired = acme.events().await.remove(0);
    for (fact, expected) in [
        ("type", "budget.burn_rate_anomaly"),
        ("scope", SCOPE),
        ("source", "anomaly-detector"),
        ("data.unit", "TOKENS"),
        ("data.charged", "1000"),
        ("data.baseline_charged", "300"),
        ("data.baseline_windows", "3"),
        ("data.window_seconds", "60"),
        ("data.multiplier_limit", "3"),
        ("data.remaining", "500"),
    ] {
        assert_eq!(fired[fact], expected, "{fact}");
    }
    acme.at(259).await;
    assert_eq!(judge(&acme).await, 0, "it was above before");
    acme.at(325).await;
    assert_eq!(judge(&acme).await, 0);
    charge(&acme, SCOPE, 100_000).await;
    acme.at(331).await;
    assert_eq!(judge(&acme).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_charges_of_a_ledger_emit_nothing() {
    let acme = watching("burn_rate:1.5:60:").await;
    for (window, amount) in [(0, 1), (1, 1_000), (2, 1_000_000), (3, 10_000_000)] {
        acme.at(60 * window + 1).await;
        charge(&acme, SCOPE, amount).await;
        acme.at(60 * window + 7).await;
        assert_eq!(judge(&acme).await, 0, "{window}");
    }
    // Three whole windows before the present one define the usual rate.
    acme.at(241).await;
    charge(&acme, SCOPE, 100_000_000).await;
    acme.at(247).await;
    assert_eq!(judge(&acme).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_in_whose_middle_the_charges_began_does_not_lower_the_usual_rate() {
    let acme = watching("burn_rate:3:60:").await;
    let tenths = async |of: std::ops::Range<i64>, amount| {
        for tenth in of {
            acme.at(6 * tenth + 1).await;
            charge(&acme, SCOPE, amount).await;
        }
    };
    // A fifth of a window, three windows, and one with 2.45 times as much.
    tenths(9..11, 100).await;
    tenths(11..41, 100).await;
    tenths(41..51, 245).await;
    acme.at(307).await;
    assert_eq!(judge(&acme).await, 0);
    tenths(51..61, 800).await;
    acme.at(367).await;
    assert_eq!(judge(&acme).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn w30_only_watched_ledgers_and_windows_are_counted_and_others_deleted() {
    let acme =
        watching("burn_rate:3:60:tenant:acme/app:* burn_rate:2:600:tenant:acme/app:%63hat").await;
    let keys = acme.redis.store.keys().clone();
    let partition = acme.lease.partition;
    for scope in ["tenant:acme", SCOPE, "tenant:acme/app:other"] {
        charge(&acme, scope, 5).await;
    }
    let windows = async |scope| {
        let key = keys.burn(partition, "acme", "TOKENS", scope);
        let mut fields: Vec<String> = acme.redis.run(&["HKEYS", &key]).await;
        fields.sort();
        let windows = fields
            .iter()
            .map(|field| field.split('.').next().expect("one").to_owned());
        windows.collect::<Vec<_>>()
    };
    assert_eq!(windows("tenant:acme").await, [""; 0]);
    assert_eq!(windows(SCOPE).await, ["60", "600"]);
    assert_eq!(windows("tenant:acme/app:other").await, ["60"]);
    // No subscription watches it any more, or the tenant is closed.
    acme.watch("").await;
    acme.at(7).await;
    assert_eq!(judge(&acme).await, 0);
    let index = keys.burning(partition);
    let left: Vec<String> = acme.redis.run(&["ZRANGE", &index, "0", "-1"]).await;
    assert_eq!((left, windows(SCOPE).await), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_tenant_has_no_burn_rate_and_idle_ledgers_leave_the_index() {
    for status in ["CLOSED", "SUSPENDED"] {
        let acme = watching("burn_rate:3:60:").await;
        usual(&acme, 4).await;
        let key = acme.redis.store.keys();
        let (tenant, index) = (
            key.tenant(acme.lease.partition, "acme"),
            key.burning(acme.lease.partition),
        );
        acme.redis.set(&tenant, &[("status", status)]).await;
        acme.at(241).await;
        charge(&acme, SCOPE, 1_000).await;
        acme.at(247).await;
        let is_open = status == "SUSPENDED";
        assert_eq!(judge(&acme).await, i64::from(is_open), "{status}");
        let left = async || acme.redis.run::<i64>(&["ZCARD", &index]).await;
        assert_eq!(left().await, i64::from(is_open), "{status}");
        acme.at(247 + 13 * 60 + 6).await;
        assert_eq!((judge(&acme).await, left().await), (0, 0), "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dispatchers_that_overlap_and_a_clock_that_steps_emit_one_event() {
    let acme = watching("burn_rate:3:60:").await;
    usual(&acme, 4).await;
    acme.at(241).await;
    charge(&acme, SCOPE, 1_000).await;
    acme.at(247).await;
    let (a, b, leases) = (
        due_events(&acme.redis.store),
        due_events(&acme.redis.store),
        [acme.lease],
    );
    let mut emitted = 0;
    for _ in 0..3 {
        let passes = tokio::join!(a.run_once(&leases, |_| {}), b.run_once(&leases, |_| {}));
        emitted += passes.0.expect("Redis answers").done + passes.1.expect("Redis answers").done;
    }
    assert_eq!((emitted, acme.events().await.len()), (1, 1));
    // Twenty seconds back, to a time that was evaluated.
    acme.at(227).await;
    charge(&acme, SCOPE, 1).await;
    acme.at(235).await;
    assert_eq!(judge(&acme).await, 0);
    // An hour forward: the usual rate is unknown.
    acme.at(3_847).await;
    charge(&acme, SCOPE, 1_000_000).await;
    acme.at(3_853).await;
    assert_eq!(judge(&acme).await, 0);
    let old = Lease {
        token: acme.lease.token - 1,
        ..acme.lease
    };
    acme.at(3_859).await;
    let mut lost = 0;
    let pass = a.run_once(&[old], |_| lost += 1).await;
    assert_eq!((pass.expect("Redis answers").done, lost), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn burn_rates_match_a_model_on_a_random_history() {
    let seed: u64 = rand::random();
    let mut random = SmallRng::seed_from_u64(seed);
    let limits = [(2.0, 60_i64), (1.5, 120)];
    let acme = watching("burn_rate:2:60: burn_rate:1.5:120:").await;
    let (mut charged, mut was_above, mut now, mut fired) = (Vec::new(), [false; 2], 1, 0);
    for step in 0..200 {
        acme.at(now).await;
        if random.random_bool(0.7) {
            let most = if random.random_bool(0.1) { 2_000 } else { 60 };
            let amount = random.random_range(1..most);
            charge(&acme, SCOPE, amount).await;
            charged.push((now, amount as f64));
        }
        now += 6 * random.random_range(1..=if step % 17 == 0 { 40 } else { 4 });
        acme.at(now).await;
        let judged = judge(&acme).await;
        let mut expected = 0;
        for (at, (above, window)) in limits.into_iter().enumerate() {
            let bucket = now / (window / 10);
            let total = |before: i64| -> f64 {
                let last = bucket - 1 - 10 * before;
                let within = |time: i64| (last - 9..=last).contains(&(time / (window / 10)));
                let within = charged.iter().filter(|(time, _)| within(*time));
                within.map(|(_, amount)| amount).sum()
            };
            let mut before: Vec<f64> = (1..=13).map(total).collect();
            // The oldest window with charges is left out.
            let oldest = before.iter().rposition(|amount| *amount > 0.0);
            before.truncate(oldest.unwrap_or(0));
            let filled = before.iter().filter(|amount| **amount > 0.0).count();
            let usual = before.iter().sum::<f64>() / before.len() as f64;
            let is_above = filled >= 3 && total(0) > above * usual;
            expected += i64::from(is_above && !was_above[at]);
            was_above[at] = is_above;
        }
        assert_eq!(judged, expected, "seed {seed}, step {step}, {now} s");
        fired += judged;
    }
    assert!(fired > 3, "{fired} with seed {seed}");
}

#[tokio::test]
async fn commits_and_usage_events_count_once_per_charged_ledger() {
    let app = TestApp::spawn().await;
    let caller = &app.callers[0];
    let (partition, keys) = (caller.partition, app.store.keys().clone());
    for scope in ["tenant:acme", SCOPE] {
        app.place(scope, 1_000, 0, ledger(1_000, 0, 0, 0)).await;
    }
    let watched = [("watched_rates", "burn_rate:3:86400:")];
    app.set_tenant(&[("status", "ACTIVE")]).await;
    app.set_tenant(&watched).await;
    for _ in 0..2 {
        let id = app.held(SCOPE, 10, json!({})).await;
        app.commit(&id, "c", 7).await.expect(200);
        app.post_event("e", SCOPE, 5, json!({})).await.expect(201);
    }
    app.create("r", "tenant:acme", 10, json!({}))
        .await
        .expect(200);
    for scope in ["tenant:acme", SCOPE] {
        let key = keys.burn(partition, "acme", "TOKENS", scope);
        eventually("the charges are stored", || async {
            let rows: Vec<String> = app.run(&["HVALS", &key]).await;
            let words = rows.iter().flat_map(|row| row.split(' ').skip(1));
            let total: i64 = words
                .map(|word| word.parse::<i64>().expect("an amount"))
                .sum();
            if total == 12 { Ok(()) } else { Err(total) }
        })
        .await;
    }
}

#[tokio::test]
async fn a_burn_rate_event_goes_to_subscriptions_with_its_limit_and_scope() {
    let app = hooked().await;
    let umbra = tenant_id("umbra");
    let types = json!(["budget.burn_rate_anomaly"]);
    let usual = made(&app, json!({"url": URL, "event_types": types})).await;
    let other =
        json!({"url": URL, "event_types": types, "thresholds": {"burn_rate_multiplier": 4}});
    let other = made(&app, other).await;
    let scoped = json!({"url": URL, "event_types": types, "scope_filter": "tenant:umbra/*"});
    let scoped = made(&app, scoped).await;
    let system =
        json!({"url": URL, "event_types": ["budget.funded"], "event_categories": ["budget"]});
    let system = app.post_as_admin(HOOKS, system).await.expect(201);
    let system = system.text("/subscription/subscription_id").to_owned();
    // The usual charge, and a tenth of a past window, as the counts have it.
    let keys = app.store.keys();
    let key = keys.burn(umbra.partition(), "umbra", "TOKENS", "tenant:umbra");
    let bucket = app.now_ms().await / 30_000;
    for row in bucket / 10 - 5..=(bucket + 1) / 10 {
        let amounts = (row * 10..row * 10 + 10).map(|at| match bucket - at {
            0..=10 => " 35",
            11..=41 => " 10",
            _ => " 0",
        });
        let (field, amounts) = (format!("300.{}", row % 15), amounts.collect::<String>());
        app.run::<()>(&["HSET", &key, &field, &format!("{row}{amounts}")])
            .await;
    }
    let index = keys.burning(umbra.partition());
    app.run::<()>(&["ZADD", &index, "1", "umbra TOKENS tenant:umbra"])
        .await;
    let lease = app
        .lease_of(umbra.partition(), "d", Duration::from_secs(60))
        .await;
    let pass = due_events(&app.store).run_once(&[lease], |_| {}).await;
    assert_eq!(
        pass.expect("Redis answers").done,
        1,
        "the multiple is between three and four"
    );
    follow(&fan_out(&app)).await;
    for (id, expected) in [(&usual, 1), (&other, 0), (&scoped, 0), (&system, 1)] {
        let queued = queued_to(&app, id).await;
        let burning = queued.iter().filter(|it| *it == "budget.burn_rate_anomaly");
        assert_eq!(burning.count(), expected, "{id}: {queued:?}");
    }
}
