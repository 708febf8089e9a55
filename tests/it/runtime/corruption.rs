//! Damaged ledgers and records: whatever is wrong, no operation moves money and then fails. Keys of a wrong type are in
//! `tests/it/redis/wrong_types`.

use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::response::Response;

const ROOT: &str = "tenant:acme";

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
    }
}

/// Key, field, its damaged value (empty: none), and the operations that need it.
type Row = (String, &'static str, &'static str, &'static [Operation]);

fn table(app: &TestApp, id: &str) -> Vec<Row> {
    use Operation::{Commit, Decide, Deny, Post, Release, Reserve};
    let caller = &app.callers[0];
    let keys = app.store.keys().of(caller.partition);
    let denials = keys.denials(caller.tenant.as_str());
    let (ledger, record) = (app.ledger_key(0, ROOT), app.reservation_key(id));
    let all = &[Reserve, Commit, Release, Post][..];
    let mut rows: Vec<Row> = [
        "remaining",
        "reserved",
        "spent",
        "allocated",
        "overdraft_limit",
    ]
    .map(|field| (ledger.clone(), field, "x", all))
    .into();
    // Any debt but 0 refuses a reservation, whatever it is.
    rows.push((ledger, "debt", "x", &[Commit, Release, Post]));
    for field in ["count", "suppressed"] {
        rows.push((denials.clone(), field, "x", &[Decide, Deny]));
    }
    for policy in ["", "MAYBE"] {
        rows.push((record.clone(), "overage_policy", policy, &[Commit]));
    }
    rows
}

#[tokio::test]
async fn a_damaged_field_is_found_before_the_first_write() {
    let (app, id) = with_hold().await;
    let count = table(&app, &id).len();
    for row in 0..count {
        let operations = table(&app, &id)[row].3;
        for operation in operations {
            let (app, id) = with_hold().await;
            let (key, field, value, _) = table(&app, &id).swap_remove(row);
            if key.contains("}:denials:") {
                let now_ms = app.now_ms().await;
                let minute_ms = (now_ms - now_ms % 60_000).to_string();
                app.set(&key, &[("minute_ms", &minute_ms), ("count", "100000")])
                    .await;
            }
            match value {
                "" => app.run::<()>(&["HDEL", &key, field]).await,
                _ => app.set(&key, &[(field, value)]).await,
            }
            let before = app.everything().await;
            let response = run(&app, *operation, &id).await;
            let what = format!("{operation:?} with {field} {value:?}");
            assert_eq!(response.status, 500, "{what}: {response:?}");
            assert!(app.everything().await == before, "{what}");
        }
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
