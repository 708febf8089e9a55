//! The client's high-level helpers: the guard, the wrapper around a call, the heartbeat, and recovery of what came too late.

use std::time::{Duration, Instant};

use budget_authority_clients::{Tenant, tokens};
use runcycles::models::*;
use runcycles::{CyclesClient, Error, WithCyclesConfig, with_cycles};
use serde_json::json;

/// Waits until the figures are these: the client acts in the background.
async fn becomes(tenant: &Tenant, figures: [i64; 4]) {
    let begun = Instant::now();
    loop {
        let found = tenant.figures().await;
        if found == figures {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn config(tenant: &Tenant) -> WithCyclesConfig {
    WithCyclesConfig::new(tokens(100))
        .action("llm.completion", "m")
        .subject(tenant.subject())
}

#[tokio::test]
async fn a_guard_commits_or_releases_once() {
    let tenant = Tenant::new(1_000).await;
    let client = tenant.client();
    let guard = client.reserve(tenant.reservation(100)).await.unwrap();
    assert!(!guard.is_capped());
    assert_eq!(guard.affected_scopes(), [tenant.scope()]);
    let done = guard
        .commit(CommitRequest::builder().actual(tokens(60)).build())
        .await
        .unwrap();
    assert!(!done.is_recovered_via_event());
    let guard = client.reserve(tenant.reservation(100)).await.unwrap();
    guard.extend(5_000).await.unwrap();
    guard.release("not needed").await.unwrap();
    assert_eq!(tenant.figures().await, [940, 0, 60, 0]);
}

#[tokio::test]
async fn a_guard_that_is_dropped_releases() {
    let tenant = Tenant::new(1_000).await;
    drop(
        tenant
            .client()
            .reserve(tenant.reservation(100))
            .await
            .unwrap(),
    );
    becomes(&tenant, [1_000, 0, 0, 0]).await;
}

#[tokio::test]
async fn what_a_wrapped_call_used_is_committed() {
    let tenant = Tenant::new(1_000).await;
    tenant.policy(json!({"caps": {"max_tokens": 64}})).await;
    let client = tenant.client();
    let cap = with_cycles(&client, config(&tenant), |context| async move {
        Ok((context.caps.and_then(|caps| caps.max_tokens), tokens(42)))
    });
    assert_eq!(cap.await.unwrap(), Some(64));
    assert_eq!(tenant.figures().await, [958, 0, 42, 0]);
    let failed = with_cycles(&client, config(&tenant), |_| async {
        Err::<((), Amount), _>("the model is gone".into())
    });
    assert!(failed.await.is_err());
    assert_eq!(tenant.figures().await, [958, 0, 42, 0]);
}

#[tokio::test]
async fn a_call_without_budget_is_never_made() {
    let tenant = Tenant::new(99).await;
    let client = tenant.client();
    let called = with_cycles(&client, config(&tenant), |_| async {
        panic!("it was made")
    });
    let called: Result<(), Error> = called.await;
    assert!(called.unwrap_err().is_budget_exceeded());
}

#[tokio::test]
async fn the_heartbeat_extends_a_long_call() {
    let tenant = Tenant::new(1_000).await;
    // With these bounds it first extends a lease of nine seconds after two.
    let url = tenant.client().config().base_url.clone();
    let client = CyclesClient::builder(&tenant.key, url)
        .tenant(&tenant.name)
        .connect_timeout(Duration::from_secs(1))
        .read_timeout(Duration::from_secs(2))
        .journal_enabled(false)
        .build();
    let mut request = tenant.reservation(100);
    request.ttl_ms = 9_000;
    let guard = client.reserve(request).await.unwrap();
    let (id, first) = (
        guard.reservation_id().clone(),
        guard.expires_at_ms().unwrap(),
    );
    let begun = Instant::now();
    loop {
        let stored = tenant
            .client()
            .get_reservation(&id)
            .await
            .unwrap()
            .expires_at_ms;
        if stored > first {
            assert_eq!(stored, first + 9_000);
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(8), "never extended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    guard
        .commit(CommitRequest::builder().actual(tokens(1)).build())
        .await
        .unwrap();
}

/// Nothing may be extended here, so the hold is gone when the work is done; the spend must not be.
#[tokio::test]
async fn a_commit_that_comes_too_late_is_charged_by_an_event() {
    let tenant = Tenant::with(1_000, json!({"max_reservation_extensions": 0}), json!({})).await;
    let mut request = tenant.reservation(100);
    (request.ttl_ms, request.grace_period_ms) = (1_000, Some(0));
    let guard = tenant.client().reserve(request).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    let done = guard
        .commit(CommitRequest::builder().actual(tokens(70)).build())
        .await
        .unwrap();
    assert!(done.is_recovered_via_event());
    // The hold returns with the next sweep: nobody has swept here yet.
    assert_eq!(tenant.figures().await, [830, 100, 70, 0]);
}
