//! Rate limits of policies: counted per policy, scope and UTC minute of the store's clock.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::app::TestApp;
use crate::harness::response::Response;

const ROOT: &str = "tenant:acme";
const AGENT: &str = "tenant:acme/agent:a";
const MINUTE_MS: i64 = 60_000;

/// A service with a ledger and a policy for everything below the tenant, early enough in a minute.
async fn acme(limits: Value) -> (TestApp, String) {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    app.with_left_in_minute(Duration::from_secs(25)).await;
    let policy = app
        .policy("limits", "tenant:acme/*", json!({"rate_limits": limits}))
        .await;
    (app, policy)
}

async fn create(app: &TestApp, key: &str) -> Response {
    app.create(key, AGENT, 1, json!({})).await
}

fn rates_key(app: &TestApp) -> String {
    let caller = &app.callers[0];
    app.store.keys().rates(caller.partition, "acme")
}

/// Makes the counts those of the minute before.
async fn next_minute(app: &TestApp) {
    let key = rates_key(app);
    let minute: i64 = app.run(&["HGET", &key, "minute_ms"]).await;
    app.set(&key, &[("minute_ms", &(minute - MINUTE_MS).to_string())])
        .await;
}

#[tokio::test]
async fn reservations_above_the_limit_are_refused_until_the_next_minute() {
    let (app, policy) = acme(json!({"max_reservations_per_minute": 2})).await;
    for key in ["a", "b"] {
        create(&app, key).await.expect(200);
    }
    let before = app.stored_ledger(ROOT).await;
    let refused = create(&app, "c").await.refused(429, "LIMIT_EXCEEDED");
    let now = app.now_ms().await;
    let reset: i64 = refused
        .header("x-ratelimit-reset")
        .expect("a header")
        .parse()
        .expect("seconds");
    let after: i64 = refused
        .header("retry-after")
        .expect("a header")
        .parse()
        .expect("seconds");
    assert_eq!(
        reset * 1000,
        now - now % MINUTE_MS + MINUTE_MS,
        "the end of the minute"
    );
    assert!(
        after >= 1 && (reset - after) * 1000 <= now && now < (reset - after + 3) * 1000,
        "{after} {reset} {now}"
    );
    assert_eq!(
        refused.at("/details"),
        &json!({"scope": AGENT, "policy_id": policy})
    );
    assert_eq!(app.stored_ledger(ROOT).await, before);

    // Another scope, another count; and outside of the policy there is none.
    for scope in ["tenant:acme/agent:b", "tenant:acme/agent:a/toolset:t", ROOT] {
        assert_eq!(
            app.create(scope, scope, 1, json!({})).await.status,
            200,
            "{scope}"
        );
    }
    // A refused request may be tried again, with its key.
    next_minute(&app).await;
    create(&app, "c").await.expect(200);
    create(&app, "d").await.expect(200);
    create(&app, "e").await.refused(429, "LIMIT_EXCEEDED");
    let ttl: i64 = app.run(&["PTTL", &rates_key(&app)]).await;
    assert!((1..=2 * MINUTE_MS).contains(&ttl), "{ttl}");
    let fields: i64 = app.run(&["HLEN", &rates_key(&app)]).await;
    assert_eq!(fields, 2, "nothing of the minute before");
}

#[tokio::test]
async fn only_granted_reservations_are_counted() {
    let (app, _) =
        acme(json!({"max_reservations_per_minute": 2, "max_commits_per_minute": 5})).await;
    let id = create(&app, "a").await.text("/reservation_id").to_owned();
    for round in 0..4 {
        assert_eq!(create(&app, "a").await.status, 200, "a replay");
        assert_eq!(
            app.create("a", AGENT, 2, json!({})).await.status,
            409,
            "a mismatch"
        );
        assert_eq!(
            app.create("much", AGENT, 5_000, json!({})).await.status,
            409,
            "a denial"
        );
        app.dry_run(&format!("dry{round}"), AGENT, 1)
            .await
            .expect(200);
        app.decide(&format!("d{round}"), AGENT, 1).await.expect(200);
        app.post_event(&format!("e{round}"), AGENT, 1, json!({}))
            .await
            .expect(201);
        app.extend(&id, &format!("x{round}"), 1_000)
            .await
            .expect(200);
    }
    create(&app, "b").await.expect(200);
    create(&app, "c").await.refused(429, "LIMIT_EXCEEDED");
    // At the limit, only a new reservation is refused.
    create(&app, "a").await.expect(200);
    app.create("a", AGENT, 2, json!({}))
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    assert_eq!(
        app.dry_run("dry", AGENT, 1).await.text("/decision"),
        "ALLOW"
    );
    assert_eq!(app.decide("d", AGENT, 1).await.text("/decision"), "ALLOW");
    app.post_event("e", AGENT, 1, json!({})).await.expect(201);
    app.extend(&id, "x", 1_000).await.expect(200);
    app.commit(&id, "c", 1).await.expect(200);
}

#[tokio::test]
async fn commits_are_counted_and_never_refused() {
    let (app, policy) = acme(json!({"max_commits_per_minute": 2})).await;
    let mut held = Vec::new();
    for key in ["a", "b", "c", "d", "e"] {
        held.push(create(&app, key).await.text("/reservation_id").to_owned());
    }
    app.release(&held[4], "r").await.expect(200);
    app.commit(&held[0], "c0", 1).await.expect(200);
    for _ in 0..3 {
        assert_eq!(app.commit(&held[0], "c0", 1).await.status, 200, "a replay");
        app.commit(&held[0], "other", 1).await.expect(409);
    }
    assert_eq!(create(&app, "f").await.status, 200, "one has been counted");
    app.commit(&held[1], "c1", 1).await.expect(200);
    create(&app, "g").await.refused(429, "LIMIT_EXCEEDED");
    for (id, key) in [(&held[2], "c2"), (&held[3], "c3")] {
        assert_eq!(app.commit(id, key, 1).await.status, 200, "beyond the limit");
    }
    let counted: i64 = app
        .run(&[
            "HGET",
            &rates_key(&app),
            &format!("committed {policy} {AGENT}"),
        ])
        .await;
    assert_eq!(counted, 4);
    next_minute(&app).await;
    create(&app, "g").await.expect(200);

    // A reservation that was made under no limit is not counted, whatever came later.
    app.amend(&policy, json!({"rate_limits": null})).await;
    let free = create(&app, "free")
        .await
        .text("/reservation_id")
        .to_owned();
    app.amend(
        &policy,
        json!({"rate_limits": {"max_commits_per_minute": 1}}),
    )
    .await;
    app.commit(&free, "free", 1).await.expect(200);
    create(&app, "h").await.expect(200);
}

#[tokio::test]
async fn the_limit_is_checked_after_the_tenant_and_before_unit_and_budgets() {
    let (app, _) = acme(json!({"max_reservations_per_minute": 1})).await;
    create(&app, "a").await.expect(200);
    let credits = json!({"estimate": {"unit": "CREDITS", "amount": 1}});
    app.create("unit", AGENT, 1, credits)
        .await
        .refused(429, "LIMIT_EXCEEDED");
    app.create("funds", AGENT, 5_000, json!({}))
        .await
        .refused(429, "LIMIT_EXCEEDED");
    app.set_ledger(ROOT, &[("status", "FROZEN")]).await;
    app.create("frozen", AGENT, 1, json!({}))
        .await
        .refused(429, "LIMIT_EXCEEDED");
    assert!(
        app.events()
            .await
            .iter()
            .all(|event| event.get("type") == "policy.created"),
        "a request that comes too early is no denial"
    );
    for (status, expected) in [
        ("SUSPENDED", (403, "FORBIDDEN")),
        ("CLOSED", (409, "TENANT_CLOSED")),
    ] {
        app.set_tenant(&[("status", status)]).await;
        assert_eq!(create(&app, status).await.error(), expected);
    }
    app.set_key(&[("permissions", " balances:read ")]).await;
    create(&app, "forbidden").await.refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn a_changed_limit_applies_at_once_to_earlier_requests() {
    let (app, policy) = acme(json!({"max_reservations_per_minute": 5})).await;
    for key in ["a", "b", "c"] {
        create(&app, key).await.expect(200);
    }
    let other = app.replica(&[]).await;
    app.amend(
        &policy,
        json!({"rate_limits": {"max_reservations_per_minute": 3}}),
    )
    .await;
    create(&other, "d").await.refused(429, "LIMIT_EXCEEDED");
    app.amend(
        &policy,
        json!({"rate_limits": {"max_reservations_per_minute": 4}}),
    )
    .await;
    create(&other, "d").await.expect(200);
    create(&app, "e").await.refused(429, "LIMIT_EXCEEDED");
}

#[tokio::test]
async fn concurrent_replicas_never_exceed_the_limit() {
    let (app, _) = acme(json!({"max_reservations_per_minute": 10})).await;
    let replicas = [
        Arc::new(app.replica(&[]).await),
        Arc::new(app.replica(&[]).await),
    ];
    let mut racing = JoinSet::new();
    for number in 0..40 {
        let replica = Arc::clone(&replicas[number % 2]);
        racing.spawn(async move { create(&replica, &format!("k{number}")).await.status });
    }
    let statuses = racing.join_all().await;
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        10,
        "{statuses:?}"
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == 429).count(),
        30,
        "{statuses:?}"
    );
}

#[tokio::test]
async fn unreadable_counts_refuse_nothing_but_a_key_of_the_wrong_type_does() {
    let (app, policy) = acme(json!({"max_reservations_per_minute": 1})).await;
    create(&app, "a").await.expect(200);
    app.set(
        &rates_key(&app),
        &[(&format!("reserved {policy} {AGENT}"), "many")],
    )
    .await;
    create(&app, "b").await.expect(200);
    app.run::<()>(&["DEL", &rates_key(&app)]).await;
    app.run::<()>(&["SET", &rates_key(&app), "text"]).await;
    let before = app.everything().await;
    create(&app, "c").await.refused(500, "INTERNAL_ERROR");
    assert_eq!(app.everything().await, before);
}
