//! Damaged ledgers, records and indexes: whatever is wrong, no operation moves money and then fails.

use std::collections::BTreeMap;

use budget_authority::store::Day;
use serde_json::json;

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::response::Response;

const ROOT: &str = "tenant:acme";

/// Everything that is stored except the due times: one without a record only costs a sweep a read.
async fn stored_state(app: &TestApp) -> BTreeMap<String, Vec<u8>> {
    let mut found = app.everything().await;
    found.retain(|key, _| !key.contains(":due"));
    found
}

/// An operation of the runtime plane.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    /// Takes the last unit, which is an event.
    Reserve,
    /// Needs 50 beyond its hold, which is an event.
    Commit,
    /// Falls below a threshold, which is an event.
    Release,
    Post,
    /// Lacks funds, which is a denial.
    Decide,
    /// The same.
    Deny,
    Extend,
}

/// A ledger of 1,000 with a hold of 900.
async fn with_hold() -> (TestApp, String) {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(ROOT, 900, json!({})).await;
    app.announced_at(ROOT, 1_000).await;
    (app, id)
}

async fn run(app: &TestApp, operation: Operation, id: &str) -> Response {
    match operation {
        Operation::Reserve => app.reserve("again", 100).await,
        Operation::Commit => app.commit(id, "c", 950).await,
        Operation::Release => app.release(id, "r").await,
        Operation::Post => app.post_event("e", ROOT, 100, json!({})).await,
        Operation::Decide => app.decide("d", ROOT, 200).await,
        Operation::Deny => app.reserve("again", 200).await,
        Operation::Extend => app.extend(id, "x", 1_000).await,
    }
}

#[tokio::test]
async fn a_damaged_figure_or_index_is_found_before_the_first_write() {
    use Operation::{Commit, Decide, Deny, Extend, Post, Release, Reserve};
    let all = [Reserve, Commit, Release, Post];
    let emitting = [Reserve, Commit, Release, Post, Decide, Deny];
    let (app, _) = with_hold().await;
    let (caller, keys) = (&app.callers[0], app.store.keys().clone());
    let (partition, tenant) = (caller.partition, caller.tenant.as_str());
    let today = Day::of_ms(app.now_ms().await);
    let foreign = [
        (
            keys.due(partition, tenant),
            &[Reserve, Commit, Release, Extend][..],
        ),
        (keys.due_tenants(partition), &[Reserve, Extend]),
        (keys.reservations(partition, tenant, today), &[Reserve]),
        (keys.events(partition, tenant, today), &emitting),
        (keys.outbox(partition), &emitting),
        (keys.days(partition), &emitting),
        (keys.denials(partition, tenant), &[Decide, Deny]),
        (keys.denials_due(partition), &[Decide, Deny]),
    ];
    for operation in all {
        for field in [
            "remaining",
            "reserved",
            "spent",
            "allocated",
            "debt",
            "overdraft_limit",
        ] {
            let (app, id) = with_hold().await;
            if operation == Reserve && field == "debt" {
                continue; // any debt but 0 refuses, whatever it is
            }
            app.set_ledger(ROOT, &[(field, "x")]).await;
            let before = app.everything().await;
            let response = run(&app, operation, &id).await;
            assert_eq!(
                response.status, 500,
                "{operation:?} with {field}: {response:?}"
            );
            assert!(
                app.everything().await == before,
                "{operation:?} with {field}"
            );
        }
    }
    for operation in emitting.into_iter().chain([Extend]) {
        for (key, operations) in &foreign {
            if !operations.contains(&operation) {
                continue;
            }
            let (app, id) = with_hold().await;
            let prefix = app.store.keys().prefix().to_owned();
            let key = key.replacen(keys.prefix(), &prefix, 1);
            app.run::<()>(&["SET", &key, "not what it should be"]).await;
            // Days are written once a day.
            let record = app.store.keys().tenant(partition, tenant);
            app.run::<i64>(&["HDEL", &record, "day"]).await;
            let before = stored_state(&app).await;
            let response = run(&app, operation, &id).await;
            assert_eq!(
                response.status, 500,
                "{operation:?} with {key}: {response:?}"
            );
            assert!(
                stored_state(&app).await == before,
                "{operation:?} with {key}"
            );
        }
    }
}

#[tokio::test]
async fn a_damaged_count_of_denials_is_found_before_the_first_write() {
    for operation in [Operation::Decide, Operation::Deny] {
        for field in ["count", "suppressed"] {
            let (app, id) = with_hold().await;
            let caller = &app.callers[0];
            let denials = app
                .store
                .keys()
                .denials(caller.partition, caller.tenant.as_str());
            let now_ms = app.now_ms().await;
            let minute_ms = (now_ms - now_ms % 60_000).to_string();
            app.run::<()>(&["HSET", &denials, "minute_ms", &minute_ms, "count", "100000"])
                .await;
            app.run::<()>(&["HSET", &denials, field, "x"]).await;
            let before = app.everything().await;
            let response = run(&app, operation, &id).await;
            assert_eq!(
                response.status, 500,
                "{operation:?} with {field}: {response:?}"
            );
            assert!(
                app.everything().await == before,
                "{operation:?} with {field}"
            );
        }
    }
}

#[tokio::test]
async fn a_commit_beyond_its_hold_needs_a_known_overage_policy() {
    let (app, id) = with_hold().await;
    let record = app.reservation_key(&id);
    for damage in [
        &["HDEL", &record, "overage_policy"][..],
        &["HSET", &record, "overage_policy", "MAYBE"],
    ] {
        app.run::<()>(damage).await;
        let before = app.everything().await;
        app.commit(&id, "c", 950).await.expect(500);
        assert!(app.everything().await == before, "{damage:?}");
    }
}

#[tokio::test]
async fn a_damaged_ledger_delays_only_the_expiry_of_its_own_holds() {
    let damages = [
        ("reserved", "-5"),
        ("spent", "x"),
        ("allocated", ""),
        ("debt", "1.5"),
        ("overdraft_limit", "x"),
    ];
    for (field, value) in damages {
        let app = TestApp::spawn().await;
        let (sound, damaged) = ("tenant:acme/agent:a", "tenant:acme/agent:b");
        app.budget(sound, 1_000, 0).await;
        app.budget(damaged, 1_000, 0).await;
        let good = app.held(sound, 1_000, json!({})).await;
        let bad = app.held(damaged, 900, json!({})).await;
        app.backdate(&good, 60_000).await;
        app.backdate(&bad, 60_000).await;
        app.set_ledger(damaged, &[(field, value)]).await;
        let emitted = app.outbox().await.len();
        assert_eq!(app.sweep().await, 1, "{field}");
        let figures: Vec<i64> = app
            .run(&["HMGET", &app.ledger_key(0, sound), "remaining", "reserved"])
            .await;
        assert_eq!(figures, [1_000, 0], "{field}");
        assert_eq!(app.outbox().await.len(), emitted + 1, "{field}");
        let (caller, keys) = (&app.callers[0], app.store.keys());
        let quarantine: Vec<String> = app
            .run(&["ZRANGE", &keys.quarantine(caller.partition), "0", "-1"])
            .await;
        assert_eq!(quarantine, [bad], "{field}");
        assert_eq!(app.sweep().await, 0, "nothing is looked at twice");
        let response = app.create("next", sound, 1_000, json!({})).await;
        assert_eq!(response.status, 200, "the tenant continues: {response:?}");
    }
}

/// The keys that the event and the audit entry of a change are written to, each of another type in turn.
#[tokio::test]
async fn an_operators_update_that_cannot_emit_its_event_changes_nothing() {
    for (index, release) in [
        (0, false),
        (1, false),
        (2, false),
        (3, false),
        (4, false),
        (5, false),
        (2, true),
        (3, true),
        (4, true),
    ] {
        let (app, id) = with_hold().await;
        let (caller, keys) = (&app.callers[0], app.store.keys());
        let (partition, tenant) = (caller.partition, caller.tenant.as_str());
        let today = Day::of_ms(app.now_ms().await);
        let key = [
            keys.events(partition, tenant, today),
            keys.outbox(partition),
            keys.audit(partition, tenant, today),
            keys.chain(partition, tenant),
            keys.unsealed(partition),
            keys.days(partition),
        ][index]
            .clone();
        app.run::<()>(&["DEL", &key]).await;
        app.run::<()>(&["SET", &key, "not what it should be"]).await;
        let before = app.everything().await;
        let response = if release {
            app.admin_release(&id, "r").await
        } else {
            let path = "/v1/admin/budgets/fund?scope=tenant:acme&unit=TOKENS&tenant_id=acme";
            let body = json!({"operation": "CREDIT", "amount": {"unit": "TOKENS", "amount": 5}, "idempotency_key": "f"});
            let request = app.request(reqwest::Method::POST, path).json(&body);
            app.send(request.header("X-Admin-API-Key", ADMIN_KEY)).await
        };
        assert_eq!(response.status, 500, "{key}: {response:?}");
        let mut after = app.everything().await;
        // The refused request may be recorded where it can be.
        after.retain(|name, _| before.contains_key(name));
        let ledger = app.ledger_key(0, ROOT);
        assert!(after[&ledger] == before[&ledger], "{key}");
        assert!(
            after[&app.reservation_key(&id)] == before[&app.reservation_key(&id)],
            "{key}"
        );
        assert!(
            after[&keys.due(partition, tenant)] == before[&keys.due(partition, tenant)],
            "{key}"
        );
    }
}

/// A chain with an unreadable sequence, and the thresholds that scripts of subscriptions read.
#[tokio::test]
async fn a_subscription_that_cannot_be_watched_or_audited_is_not_created() {
    for index in 0..4 {
        let (app, _) = with_hold().await;
        let (caller, keys) = (&app.callers[0], app.store.keys());
        let (partition, tenant) = (caller.partition, caller.tenant.as_str());
        let key = [
            keys.chain(partition, tenant),
            keys.watch(partition, tenant),
            keys.thresholds(partition),
            keys.webhooks(partition, tenant),
        ][index]
            .clone();
        match index {
            0 => app.run::<()>(&["HSET", &key, "sequence", "1x"]).await,
            _ => app.run::<()>(&["SET", &key, "no hash"]).await,
        };
        let path = "/v1/admin/webhooks?tenant_id=acme";
        let body = json!({"url": "https://93.184.216.34/x", "event_types": ["budget.created"]});
        let request = app.request(reqwest::Method::POST, path).json(&body);
        let response = app.send(request.header("X-Admin-API-Key", ADMIN_KEY)).await;
        assert_eq!(response.status, 500, "{key}: {response:?}");
        let made = app.everything().await;
        assert!(!made.keys().any(|name| name.contains(":webhook:")), "{key}");
    }
}
