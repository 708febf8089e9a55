//! Each operation of the client.

use budget_authority_clients::{Tenant, fresh, tokens};
use runcycles::models::*;
use serde_json::json;

fn commit(amount: i64) -> CommitRequest {
    CommitRequest::builder().actual(tokens(amount)).build()
}

#[tokio::test]
async fn a_reservation_is_committed_and_its_rest_returns() {
    let tenant = Tenant::new(10_000).await;
    let client = tenant.client();
    let made = client
        .create_reservation_with_metadata(&tenant.reservation(100))
        .await
        .unwrap();
    assert!(made.request_id.as_deref().unwrap().starts_with("req_"));
    assert_eq!(made.cycles_tenant.as_deref(), Some(tenant.name.as_str()));
    let made = made.into_inner();
    assert_eq!(
        (made.decision, made.reserved),
        (Decision::Allow, Some(tokens(100)))
    );
    assert_eq!(made.scope_path, Some(tenant.scope()));
    assert!(made.remaining_ttl_ms.unwrap() <= 60_000);
    let id = made.reservation_id.unwrap();
    let metrics = CyclesMetrics {
        tokens_input: Some(3),
        model_version: Some("m".into()),
        ..Default::default()
    };
    let request = CommitRequest::builder()
        .actual(tokens(42))
        .metrics(metrics)
        .metadata(json!({"a": [1]}))
        .build();
    for _ in 0..2 {
        let done = client.commit_reservation(&id, &request).await.unwrap();
        assert_eq!(
            (done.status, done.charged),
            (CommitStatus::Committed, tokens(42))
        );
        assert_eq!(done.released, Some(tokens(58)));
        assert_eq!(done.balances.unwrap()[0].spent, Some(tokens(42)));
    }
    assert_eq!(tenant.figures().await, [9_958, 0, 42, 0]);
}

#[tokio::test]
async fn a_reservation_is_repeated_extended_released_read_and_listed() {
    let tenant = Tenant::new(10_000).await;
    let client = tenant.client();
    let request = tenant.reservation(100);
    let made = client.create_reservation(&request).await.unwrap();
    let again = client.create_reservation(&request).await.unwrap();
    assert_eq!(made.reservation_id, again.reservation_id);
    let id = made.reservation_id.unwrap();
    let extended = client
        .extend_reservation(&id, &ExtendRequest::new(30_000))
        .await
        .unwrap();
    assert_eq!(extended.status, ExtendStatus::Active);
    assert_eq!(extended.expires_at_ms, made.expires_at_ms.unwrap() + 30_000);
    let found = client.get_reservation(&id).await.unwrap();
    assert_eq!(
        (found.status, found.subject),
        (ReservationStatus::Active, tenant.subject())
    );
    assert_eq!(
        found.idempotency_key.as_deref(),
        Some(request.idempotency_key.as_str())
    );
    let active = ListReservationsParams {
        status: Some("ACTIVE".into()),
        limit: Some(1),
        ..Default::default()
    };
    let page = client.list_reservations(&active).await.unwrap();
    assert_eq!(
        (page.reservations[0].reservation_id.clone(), page.has_more),
        (id.clone(), Some(false))
    );
    let released = client
        .release_reservation(&id, &ReleaseRequest::new(Some("done".into())))
        .await
        .unwrap();
    assert_eq!(
        (released.status, released.released),
        (ReleaseStatus::Released, tokens(100))
    );
    assert!(
        client
            .list_reservations(&active)
            .await
            .unwrap()
            .reservations
            .is_empty()
    );
    assert_eq!(tenant.figures().await, [10_000, 0, 0, 0]);
}

#[tokio::test]
async fn decisions_events_and_balances_are_understood() {
    let tenant = Tenant::new(100).await;
    let client = tenant.client();
    let decide = |amount| {
        let request = tenant.reservation(amount);
        DecisionRequest::builder()
            .subject(request.subject)
            .action(request.action)
            .estimate(request.estimate)
            .build()
    };
    assert!(
        client
            .decide(&decide(100))
            .await
            .unwrap()
            .decision
            .is_allowed()
    );
    let denied = client.decide(&decide(101)).await.unwrap();
    assert!(denied.decision.is_denied());
    assert_eq!(denied.reason_code.as_deref(), Some("BUDGET_EXCEEDED"));
    let event = EventCreateRequest::builder()
        .subject(tenant.subject())
        .action(Action::new("tool.call", "search"))
        .actual(tokens(30))
        .build();
    let first = client.create_event(&event).await.unwrap();
    let again = client.create_event(&event).await.unwrap();
    assert_eq!(
        (first.status, first.event_id),
        (EventStatus::Applied, again.event_id)
    );
    let params = BalanceParams {
        tenant: Some(tenant.name.clone()),
        ..Default::default()
    };
    let page = client.get_balances(&params).await.unwrap();
    let row = &page.balances[0];
    assert_eq!(
        (&row.scope_path, row.remaining.amount),
        (&tenant.scope(), 70)
    );
    assert_eq!(
        (row.spent.clone(), row.allocated.clone()),
        (Some(tokens(30)), Some(tokens(100)))
    );
}

#[tokio::test]
async fn a_dry_run_and_caps_are_understood() {
    let tenant = Tenant::new(100).await;
    tenant
        .policy(json!({"caps": {"max_tokens": 64, "tool_denylist": ["web.search"]}}))
        .await;
    let client = tenant.client();
    let mut request = tenant.reservation(10);
    request.dry_run = true;
    let made = client.create_reservation(&request).await.unwrap();
    assert_eq!(
        (made.decision, made.reservation_id),
        (Decision::AllowWithCaps, None)
    );
    let caps = made.caps.unwrap();
    assert_eq!(caps.max_tokens, Some(64));
    assert!(!caps.is_tool_allowed("web.search"));
    assert_eq!(tenant.figures().await, [100, 0, 0, 0]);
}

#[tokio::test]
async fn the_greatest_amount_is_exact() {
    let tenant = Tenant::new(i64::MAX).await;
    let client = tenant.client();
    let mut request = tenant.reservation(i64::MAX);
    request.idempotency_key = IdempotencyKey::new(fresh());
    let id = client
        .create_reservation(&request)
        .await
        .unwrap()
        .reservation_id
        .unwrap();
    let done = client
        .commit_reservation(&id, &commit(i64::MAX - 1))
        .await
        .unwrap();
    assert_eq!(
        (done.charged, done.released),
        (tokens(i64::MAX - 1), Some(tokens(1)))
    );
}
