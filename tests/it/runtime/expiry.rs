//! Expiry: which operations a hold takes before, in and after its grace period, swept or not.

use budget_authority::store::runtime::commit::COMMIT;
use budget_authority::store::{Call, Lane};
use serde_json::json;
use tokio::time::Instant;

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{ledger, over, tokens};

const ROOT: &str = "tenant:acme";
const GRACE_MS: i64 = 20_000;

/// A hold of 300 of 1000 whose deadline passed this long ago.
async fn held(ago_ms: i64) -> (TestApp, String) {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app
        .held(ROOT, 300, json!({"grace_period_ms": GRACE_MS}))
        .await;
    app.backdate(&id, ago_ms).await;
    (app, id)
}

#[tokio::test]
async fn each_operation_has_its_own_deadline() {
    const GONE: u16 = 410;
    let rows = [
        // name, expired ago, commit, release, extend, get, status in a list, remaining
        ("alive", -30_000, [200, 200, 200, 200], "ACTIVE", 700),
        ("grace", 1_000, [200, 200, GONE, 200], "ACTIVE", 700),
        ("dead", GRACE_MS + 1, [GONE; 4], "EXPIRED", 700),
        ("swept", GRACE_MS + 1, [GONE; 4], "EXPIRED", 1_000),
    ];
    for (name, ago_ms, statuses, listed, remaining) in rows {
        for (operation, status) in ["commit", "release", "extend", "get"]
            .into_iter()
            .zip(statuses)
        {
            let (app, id) = held(ago_ms).await;
            if name == "swept" {
                assert_eq!(app.sweep().await, 1);
            }
            assert_eq!(app.stored_ledger(ROOT).await.remaining, remaining, "{name}");
            let rows = app.get("/v1/reservations").await;
            assert_eq!(rows.at("/reservations/0/status"), listed, "{name}");
            let response = match operation {
                "commit" => app.commit(&id, "c", 300).await,
                "release" => app.release(&id, "r").await,
                "extend" => app.extend(&id, "e", 1_000).await,
                _ => app.found(&id).await,
            };
            let code = if status == GONE {
                "RESERVATION_EXPIRED"
            } else {
                "none"
            };
            assert_eq!(response.error(), (status, code), "{operation}, {name}");
        }
    }
}

#[tokio::test]
async fn a_reservation_can_be_committed_until_the_last_millisecond_of_its_grace_period() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000_000, 0).await;
    let (mut good, mut late) = (0, 0);
    for round in 0..60 {
        let response = app
            .create(&format!("k{round}"), ROOT, 1, json!({"grace_period_ms": 0}))
            .await;
        let id = response.text("/reservation_id").to_owned();
        // From 2 ms after its end to as long before as a busy machine takes for a commit.
        let before_ms = (round % 8) * (round % 8) * 8;
        app.backdate(&id, 2 - before_ms).await;
        let due: i64 = app
            .run(&["HGET", &app.reservation_key(&id), "expires_at_ms"])
            .await;
        let response = app.commit(&id, "c", 1).await;
        if response.status == 200 {
            good += 1;
            let ended = app.found(&id).await.at("/finalized_at_ms").as_i64();
            assert!(ended.expect("a time") <= due);
        } else {
            late += 1;
            assert_eq!(response.error(), (410, "RESERVATION_EXPIRED"));
            assert!(app.now_ms().await > due);
        }
    }
    assert!(good > 0 && late > 0, "{good} in time, {late} too late");
}

#[tokio::test]
async fn without_a_grace_period_commit_and_extension_end_together() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(ROOT, 300, json!({"grace_period_ms": 0})).await;
    app.backdate(&id, 1).await;
    let gone = (410, "RESERVATION_EXPIRED");
    assert_eq!(app.extend(&id, "e", 1_000).await.error(), gone);
    assert_eq!(app.commit(&id, "c", 300).await.error(), gone);
}

#[tokio::test]
async fn an_expired_reservation_keeps_its_estimate_without_a_finalized_time() {
    for swept in [false, true] {
        let (app, id) = held(GRACE_MS + 1).await;
        if swept {
            assert_eq!(app.sweep().await, 1);
        }
        for query in ["", "?status=EXPIRED"] {
            let rows = app
                .get(&format!("/v1/reservations{query}"))
                .await
                .expect(200);
            let row = rows.at("/reservations/0");
            assert_eq!(
                (&row["reservation_id"], &row["status"]),
                (&json!(id), &json!("EXPIRED"))
            );
            assert_eq!(row["reserved"], tokens(300));
            assert!(row.get("finalized_at_ms").is_none() && row.get("committed").is_none());
        }
        let active = app.get("/v1/reservations?status=ACTIVE").await;
        assert_eq!(active.at("/reservations"), &json!([]), "swept: {swept}");
    }
}

#[tokio::test]
async fn a_sweep_returns_the_hold_once_and_emits_one_event() {
    let (app, id) = held(GRACE_MS + 1).await;
    let created = app
        .get("/v1/reservations")
        .await
        .at("/reservations/0/created_at_ms")
        .to_string();
    let due: i64 = app
        .run(&["HGET", &app.reservation_key(&id), "expires_at_ms"])
        .await;
    let (one, two, three) = tokio::join!(app.sweep(), app.sweep(), app.sweep());
    assert_eq!(one + two + three, 1);
    assert_eq!(app.stored_ledger(ROOT).await, ledger(1_000, 0, 0, 0));
    let events = app.events().await;
    assert_eq!(events.len(), 1, "{events:?}");
    let emitted = [
        ("type", "reservation.expired"),
        ("scope", ROOT),
        ("source", "expiry-sweeper"),
        ("actor", "system"),
        ("request_id", ""),
        ("data.reservation_id", &id),
        ("data.unit", "TOKENS"),
        ("data.estimated_amount", "300"),
        ("data.created_at_ms", &created),
        ("data.expires_at_ms", &due.to_string()),
        ("data.extensions_used", "0"),
    ];
    for (name, value) in emitted {
        assert_eq!(events[0].get(name), value, "{name}");
    }
    assert_eq!(events[0].get("trace_id").len(), 32);
}

#[tokio::test]
async fn a_hold_that_was_extended_is_not_swept_at_its_first_deadline() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app
        .held(ROOT, 300, json!({"ttl_ms": 15_000, "grace_period_ms": 0}))
        .await;
    app.extend(&id, "e", 100_000).await;
    let later = app.now_ms().await + 50_000;
    let tenant = app.callers[0].tenant.clone();
    let key = app.store.keys().due(tenant.partition(), tenant.as_str());
    let due: Vec<String> = app
        .run(&["ZRANGEBYSCORE", &key, "-inf", &later.to_string()])
        .await;
    assert!(due.is_empty(), "{due:?}");
    assert_eq!(app.sweep().await, 0);
}

/// Each operation that lacks the 300 which a dead hold still has, at 700 of 1000 left.
#[tokio::test]
async fn a_request_that_lacks_funds_gets_the_money_of_expired_holds() {
    for operation in ["reserve", "dry run", "decide", "event", "commit"] {
        let (app, _) = held(GRACE_MS + 1).await;
        let (aia, reject) = (json!({}), json!({"overage_policy": "REJECT"}));
        let (response, stored) = match operation {
            "reserve" => (
                app.create("k", ROOT, 1_000, aia).await,
                ledger(0, 1_000, 0, 0),
            ),
            "dry run" => (app.dry_run("k", ROOT, 1_000).await, ledger(1_000, 0, 0, 0)),
            "decide" => (app.decide("k", ROOT, 1_000).await, ledger(1_000, 0, 0, 0)),
            "event" => (
                app.post_event("k", ROOT, 1_000, reject).await,
                ledger(0, 0, 1_000, 0),
            ),
            _ => {
                let id = app.held("tenant:acme/app:x", 600, aia).await;
                (app.commit(&id, "c", 1_000).await, ledger(0, 0, 1_000, 0))
            }
        };
        assert!(response.is_success(), "{operation}: {response:?}");
        assert_ne!(response.at("/decision"), "DENY", "{operation}");
        assert_eq!(app.stored_ledger(ROOT).await, stored, "{operation}");
        let events = app.events().await;
        let expired = events
            .iter()
            .filter(|event| event.get("type") == "reservation.expired");
        let expired: Vec<_> = expired.collect();
        assert_eq!(expired.len(), 1, "{operation}");
        assert_eq!(expired[0].get("request_id"), "", "{operation}");
        assert_eq!(expired[0].get("source"), "expiry-sweeper", "{operation}");
    }
}

#[tokio::test]
async fn if_dead_holds_are_not_enough_the_denial_is_the_usual_one() {
    let (app, _) = held(GRACE_MS + 1).await;
    let denied = app
        .reserve("k1", 1_001)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(
        denied.at("/details/remaining"),
        1_000,
        "the dead hold is counted as returned"
    );
    let id = app
        .held("tenant:acme/app:x", 600, json!({"grace_period_ms": 0}))
        .await;
    app.backdate(&id, 1).await;
    let response = app.post_event("e", ROOT, 1_001, json!({})).await;
    assert_eq!(response.at("/charged"), &tokens(1_000));
    assert_eq!(app.stored_ledger(ROOT).await, over(ledger(0, 0, 1_000, 0)));
}

#[tokio::test]
async fn dead_holds_of_several_pages_are_all_expired_for_a_request() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 250, 0).await;
    for number in 0..250 {
        let response = app
            .create(
                &format!("k{number}"),
                ROOT,
                1,
                json!({"grace_period_ms": 0}),
            )
            .await;
        app.backdate(response.text("/reservation_id"), 5_000).await;
    }
    app.reserve("all", 250).await.expect(200);
    assert_eq!(app.stored_ledger(ROOT).await, ledger(0, 250, 0, 0));
}

#[tokio::test]
async fn after_a_clock_jump_a_request_expires_only_holds_that_are_over_without_it() {
    const HOUR_MS: i64 = 3_600_000;
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    for (key, amount, expired_ago_ms) in [("old", 300, 2 * HOUR_MS), ("new", 700, 100_000)] {
        let response = app.create(key, ROOT, amount, json!({})).await;
        let id = response.text("/reservation_id").to_owned();
        app.backdate(&id, expired_ago_ms).await;
    }
    // This replica knows a clock that is an hour behind, as before a failover to a host whose clock is ahead.
    let replica = app.replica(&[]).await;
    let (seen, now_ms) = (Instant::now(), app.now_ms().await);
    let clock = replica.store.clock();
    clock.observe(seen, seen, now_ms - HOUR_MS);
    replica
        .create("all", ROOT, 1_000, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(app.stored_ledger(ROOT).await, ledger(300, 700, 0, 0));
    replica
        .create("some", ROOT, 300, json!({}))
        .await
        .expect(200);
    // A replica that has not seen the jump trusts Redis.
    app.create("rest", ROOT, 700, json!({})).await.expect(200);
    assert_eq!(app.stored_ledger(ROOT).await, ledger(0, 1_000, 0, 0));
}

/// While dead holds are expired for it, the grace of the reservation itself may pass.
#[tokio::test]
async fn a_commit_in_time_is_replayed_after_a_sweep() {
    let (app, id) = held(GRACE_MS + 100).await;
    let now_ms = app.now_ms().await;
    assert_eq!(commit_after_sweep(&app, &id, now_ms).await, "expired");
    let timely = commit_after_sweep(&app, &id, now_ms - 1_000).await;
    assert_eq!(timely, "committed");
    assert_eq!(app.stored_ledger(ROOT).await, ledger(700, 0, 300, 0));
}

/// The reply of the script to a commit of the whole hold, after holds due by then were expired.
async fn commit_after_sweep(app: &TestApp, id: &str, until_ms: i64) -> String {
    let (store, caller) = (&app.store, &app.callers[0]);
    let (keys, tenant, day) = (store.keys(), caller.tenant.as_str(), store.today());
    let partition = caller.partition;
    let names = [
        keys.api_key(partition, caller.key_id.as_str()),
        keys.tenant(partition, tenant),
        keys.reservation(partition, id),
        keys.due(partition, tenant),
        keys.events(partition, tenant, day),
        keys.outbox(partition),
        keys.unsigned(partition),
        keys.days(partition),
        keys.over_limit_or_in_debt(partition),
        keys.rates(partition, tenant),
        keys.usage(partition, tenant, day),
    ];
    let ledger = keys.budget(partition, tenant, "TOKENS", "");
    let prefix = ledger.trim_end_matches("TOKENS:");
    let call = Call::new(&COMMIT.script, &names)
        .with(prefix)
        .with(&day)
        .with(&day.start_ms())
        .with(&[caller.key_hash.as_str(), tenant, "h", "TOKENS"][..])
        .with(&300_i64)
        .with("k")
        .with(&until_ms)
        .with(&[id, "", "", ""][..]);
    let reply = store.send(Lane::Request, &call).await.expect("an answer");
    call.word(reply).expect("a word")
}
