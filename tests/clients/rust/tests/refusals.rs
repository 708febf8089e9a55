//! What is refused, as the client sees it.

use std::time::Duration;

use budget_authority_clients::{Tenant, tokens};
use runcycles::Error;
use runcycles::models::*;
use serde_json::json;

fn commit(amount: i64) -> CommitRequest {
    CommitRequest::builder().actual(tokens(amount)).build()
}

/// Checks status and code of a refusal, and what the client concludes.
fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>, status: u16, code: ErrorCode) -> Error {
    let error = outcome.expect_err("a refusal");
    // Three codes are one kind of error to this client, which keeps only that.
    let budget = [
        ErrorCode::OverdraftLimitExceeded,
        ErrorCode::DebtOutstanding,
    ]
    .contains(&code);
    let code = if budget {
        ErrorCode::BudgetExceeded
    } else {
        code
    };
    assert_eq!(
        (error.status(), error.error_code()),
        (Some(status), Some(code)),
        "{error:?}"
    );
    assert!(
        error.request_id().is_some_and(|id| id.starts_with("req_")),
        "{error:?}"
    );
    assert_eq!(error.is_auth_error(), [401, 403].contains(&status));
    assert_eq!(
        error.is_budget_exceeded(),
        code == ErrorCode::BudgetExceeded
    );
    assert_eq!(error.is_tenant_closed(), code == ErrorCode::TenantClosed);
    assert_eq!(error.is_retryable(), status == 429);
    error
}

#[tokio::test]
async fn budgets_stand_against_it() {
    let overdraft = json!({"overdraft_limit": {"unit": "TOKENS", "amount": 50}});
    let tenant = Tenant::with(100, json!({}), overdraft).await;
    let client = tenant.client();
    refused(
        client.create_reservation(&tenant.reservation(101)).await,
        409,
        ErrorCode::BudgetExceeded,
    );
    let mut request = tenant.reservation(100);
    request.overage_policy = Some(CommitOveragePolicy::AllowWithOverdraft);
    let id = client
        .create_reservation(&request)
        .await
        .unwrap()
        .reservation_id
        .unwrap();
    refused(
        client.commit_reservation(&id, &commit(151)).await,
        409,
        ErrorCode::OverdraftLimitExceeded,
    );
    client.commit_reservation(&id, &commit(150)).await.unwrap();
    let debt = refused(
        client.create_reservation(&tenant.reservation(0)).await,
        409,
        ErrorCode::DebtOutstanding,
    );
    assert!(debt.to_string().contains("debt"), "{debt}");
    let frozen = Tenant::new(100).await;
    frozen.freeze().await;
    refused(
        frozen
            .client()
            .create_reservation(&frozen.reservation(1))
            .await,
        409,
        ErrorCode::BudgetFrozen,
    );
}

#[tokio::test]
async fn a_key_that_was_used_with_another_request() {
    let tenant = Tenant::new(100).await;
    let client = tenant.client();
    let mut request = tenant.reservation(1);
    client.create_reservation(&request).await.unwrap();
    request.estimate = tokens(2);
    refused(
        client.create_reservation(&request).await,
        409,
        ErrorCode::IdempotencyMismatch,
    );
}

#[tokio::test]
async fn reservations_that_have_ended() {
    let tenant = Tenant::with(100, json!({"max_reservation_extensions": 0}), json!({})).await;
    let client = tenant.client();
    let id = client
        .create_reservation(&tenant.reservation(1))
        .await
        .unwrap()
        .reservation_id
        .unwrap();
    refused(
        client
            .extend_reservation(&id, &ExtendRequest::new(1_000))
            .await,
        409,
        ErrorCode::MaxExtensionsExceeded,
    );
    client.commit_reservation(&id, &commit(1)).await.unwrap();
    refused(
        client.commit_reservation(&id, &commit(1)).await,
        409,
        ErrorCode::ReservationFinalized,
    );
    refused(
        client
            .release_reservation(&id, &ReleaseRequest::new(None))
            .await,
        409,
        ErrorCode::ReservationFinalized,
    );
    refused(
        client.extend_reservation(&id, &ExtendRequest::new(1)).await,
        409,
        ErrorCode::ReservationFinalized,
    );
    let mut brief = tenant.reservation(1);
    (brief.ttl_ms, brief.grace_period_ms) = (1_000, Some(0));
    let id = client
        .create_reservation(&brief)
        .await
        .unwrap()
        .reservation_id
        .unwrap();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    refused(
        client.commit_reservation(&id, &commit(1)).await,
        410,
        ErrorCode::ReservationExpired,
    );
    refused(
        client
            .release_reservation(&id, &ReleaseRequest::new(None))
            .await,
        410,
        ErrorCode::ReservationExpired,
    );
    refused(
        client.extend_reservation(&id, &ExtendRequest::new(1)).await,
        410,
        ErrorCode::ReservationExpired,
    );
}

#[tokio::test]
async fn keys_that_are_bad_or_may_not() {
    let (tenant, other) = (Tenant::new(100).await, Tenant::new(100).await);
    let request = tenant.reservation(1);
    for key in [
        "nonsense",
        &format!("{}AAAA", &tenant.key[..tenant.key.len() - 4]),
    ] {
        let client = tenant.client_of(key);
        refused(
            client.create_reservation(&request).await,
            401,
            ErrorCode::Unauthorized,
        );
        refused(
            client
                .list_reservations(&ListReservationsParams::default())
                .await,
            401,
            ErrorCode::Unauthorized,
        );
    }
    let poor = tenant
        .new_key(json!({"permissions": ["balances:read"]}))
        .await;
    let narrow = tenant.new_key(json!({"scope_filter": ["agent:bot"]})).await;
    for key in [&poor, &narrow, &other.key] {
        refused(
            tenant.client_of(key).create_reservation(&request).await,
            403,
            ErrorCode::Forbidden,
        );
    }
    let id = tenant
        .client()
        .create_reservation(&request)
        .await
        .unwrap()
        .reservation_id
        .unwrap();
    refused(
        other.client().get_reservation(&id).await,
        403,
        ErrorCode::Forbidden,
    );
    refused(
        other.client().commit_reservation(&id, &commit(1)).await,
        403,
        ErrorCode::Forbidden,
    );
    assert_eq!(tenant.figures().await, [99, 1, 0, 0]);
}

#[tokio::test]
async fn what_is_missing_or_wrong() {
    let tenant = Tenant::new(100).await;
    let client = tenant.client();
    let nothing = ReservationId::new("r000_AAAAAAAAAAAAAAAAAAAAAAAA");
    refused(
        client.get_reservation(&nothing).await,
        404,
        ErrorCode::NotFound,
    );
    let mut request = tenant.reservation(1);
    request.estimate = Amount::credits(1);
    refused(
        client.create_reservation(&request).await,
        400,
        ErrorCode::UnitMismatch,
    );
    request.estimate = tokens(1);
    request.ttl_ms = 999;
    refused(
        client.create_reservation(&request).await,
        400,
        ErrorCode::InvalidRequest,
    );
    // What the client advises hangs on how the message begins.
    let bare = Tenant::bare().await;
    let outcome = bare.client().create_reservation(&bare.reservation(1)).await;
    let error = refused(outcome, 404, ErrorCode::NotFound);
    assert!(
        error
            .to_string()
            .contains("request was sent with unit=TOKENS"),
        "{error}"
    );
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_again() {
    let tenant = Tenant::new(100).await;
    tenant
        .policy(json!({"rate_limits": {"max_reservations_per_minute": 1}}))
        .await;
    let client = tenant.client();
    // A minute may end between two of them, not twice.
    for attempt in 0..3 {
        match client.create_reservation(&tenant.reservation(1)).await {
            Ok(_) => assert!(attempt < 2, "never limited"),
            limited => {
                let error = refused(limited, 429, ErrorCode::LimitExceeded);
                assert!(
                    error
                        .retry_after()
                        .is_some_and(|after| after <= Duration::from_secs(60))
                );
                return;
            }
        }
    }
}

#[tokio::test]
async fn tenants_that_are_suspended_or_closed() {
    let tenant = Tenant::new(100).await;
    let client = tenant.client();
    let id = client
        .create_reservation(&tenant.reservation(1))
        .await
        .unwrap()
        .reservation_id
        .unwrap();
    tenant.set_status("SUSPENDED").await;
    refused(
        client.create_reservation(&tenant.reservation(1)).await,
        403,
        ErrorCode::Forbidden,
    );
    client.commit_reservation(&id, &commit(1)).await.unwrap();
    tenant.set_status("CLOSED").await;
    refused(
        client.get_reservation(&id).await,
        401,
        ErrorCode::Unauthorized,
    );
    let closed = Tenant::closed();
    let client = closed.client();
    refused(
        client.create_reservation(&closed.reservation(1)).await,
        409,
        ErrorCode::TenantClosed,
    );
    let mut dry = closed.reservation(1);
    dry.dry_run = true;
    let denied = client.create_reservation(&dry).await.unwrap();
    assert_eq!(denied.reason_code.as_deref(), Some("TENANT_CLOSED"));
}
