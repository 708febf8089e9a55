//! The operations of the runtime plane that change or decide something: who calls, with what, three lines of work.

use axum::extract::State;
use axum::http::StatusCode;

use super::Decision as Verdict;
use super::balances::{Balance, Figures};
use super::commit::{CommitRequest, CommitResponse, CommitStatus};
use super::decide::{DecisionRequest, DecisionResponse};
use super::events::{EventCreateRequest, EventCreateResponse, EventStatus};
use super::extend::{ExtendStatus, ReservationExtendRequest, ReservationExtendResponse};
use super::release::{ReleaseRequest, ReleaseResponse, ReleaseStatus};
use super::reserve::{ReservationCreateRequest, ReservationCreateResponse};
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, ApiJson, Because, ByEither, ByKey, OnReservation, Refused};
use crate::api::refusals::{Asked, error_of};
use crate::api::state::AppState;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget;
use crate::domain::scope::ScopePath;
use crate::ledger::{
    Commit, Decide, Decision, Extend, LedgerError, Post, Release, Reserve, Reserved,
};

type Outcome<T> = Result<Answer<T>, Refused>;

/// `POST /v1/reservations`
pub async fn reserve(
    State(state): State<AppState>,
    ByKey(caller): ByKey,
    Because(cause): Because,
    body: ApiJson<ReservationCreateRequest>,
) -> Outcome<ReservationCreateResponse> {
    let request = body.request;
    let path = ScopePath::enclosing(&request.subject).pop();
    let reserve = Reserve {
        idempotency_key: request.idempotency_key,
        payload_hash: body.payload_hash,
        subject: request.subject,
        action: request.action,
        estimate: request.estimate,
        ttl_ms: request.ttl_ms,
        grace_ms: request.grace_period_ms,
        overage_policy: request.overage_policy,
        dry_run: request.dry_run,
        metadata: request.metadata,
    };
    let asked = Asked {
        scope: path.as_ref(),
        amount: Some(reserve.estimate),
        ..Asked::default()
    };
    let reserved = state.ledger.reserve(&caller, &reserve, &cause).await;
    let reserved = reserved.map_err(|error| Refused(error_of(error, Some(asked))))?;
    Ok(Answer(StatusCode::OK, reserved_response(reserved)?))
}

fn reserved_response(reserved: Reserved) -> Result<ReservationCreateResponse, Refused> {
    match reserved {
        Reserved::Held {
            reservation_id,
            scope_path,
            reserved,
            expires_at_ms,
            remaining_ttl_ms,
            caps: _,
            balances,
        } => Ok(ReservationCreateResponse {
            decision: Verdict::Allow,
            reservation_id: Some(reservation_id),
            affected_scopes: scope_path.with_parents().collect(),
            scope_path,
            reserved: Some(reserved),
            expires_at_ms: Some(expires_at_ms),
            remaining_ttl_ms: Some(remaining_ttl_ms),
            balances: Some(shown(&balances)?),
            caps: None,
            reason_code: None,
            retry_after_ms: None,
            evidence: None,
        }),
        Reserved::DryRun {
            scope_path,
            reserved,
            decision,
        } => {
            let (decision, balances, reason_code) = match decision {
                Decision::Allow { balances, .. } => (Verdict::Allow, Some(shown(&balances)?), None),
                Decision::Deny(denial) => (Verdict::Deny, None, Some(denial.as_str().to_owned())),
            };
            Ok(ReservationCreateResponse {
                decision,
                reservation_id: None,
                affected_scopes: scope_path.with_parents().collect(),
                scope_path,
                reserved: balances.is_some().then_some(reserved),
                expires_at_ms: None,
                remaining_ttl_ms: None,
                balances,
                caps: None,
                reason_code,
                retry_after_ms: None,
                evidence: None,
            })
        }
    }
}

/// `POST /v1/decide`
pub async fn decide(
    State(state): State<AppState>,
    ByKey(caller): ByKey,
    Because(cause): Because,
    body: ApiJson<DecisionRequest>,
) -> Outcome<DecisionResponse> {
    let request = body.request;
    let decide = Decide {
        idempotency_key: request.idempotency_key,
        payload_hash: body.payload_hash,
        subject: request.subject,
        action: request.action,
        estimate: request.estimate,
    };
    let asked = Asked {
        amount: Some(decide.estimate),
        ..Asked::default()
    };
    let decided = state.ledger.decide(&caller, &decide, &cause).await;
    let decided = decided.map_err(|error| Refused(error_of(error, Some(asked))))?;
    let (decision, reason_code) = match decided.decision {
        Decision::Allow { .. } => (Verdict::Allow, None),
        Decision::Deny(denial) => (Verdict::Deny, Some(denial.as_str().to_owned())),
    };
    let response = DecisionResponse {
        decision,
        affected_scopes: decided.scope_path.with_parents().collect(),
        caps: None,
        reason_code,
        retry_after_ms: None,
        evidence: None,
    };
    Ok(Answer(StatusCode::OK, response))
}

/// `POST /v1/reservations/{reservation_id}/commit`
pub async fn commit(
    State(state): State<AppState>,
    ByKey(caller): ByKey,
    Because(cause): Because,
    OnReservation(reservation_id, body): OnReservation<CommitRequest>,
) -> Outcome<CommitResponse> {
    let commit = Commit {
        reservation_id,
        idempotency_key: body.request.idempotency_key,
        payload_hash: body.payload_hash,
        actual: body.request.actual,
        metrics: body.request.metrics,
        metadata: body.request.metadata,
    };
    let asked = Asked {
        reservation: Some(&commit.reservation_id),
        amount: Some(commit.actual),
        ..Asked::default()
    };
    let committed = state.ledger.commit(&caller, &commit, &cause).await;
    let committed = committed.map_err(|error| Refused(error_of(error, Some(asked))))?;
    let released = (committed.released > 0).then_some(committed.released);
    let response = CommitResponse {
        status: CommitStatus::Committed,
        charged: amount(committed.unit, committed.charged)?,
        released: released
            .map(|value| amount(committed.unit, value))
            .transpose()?,
        balances: shown(&committed.balances)?,
        evidence: None,
    };
    Ok(Answer(StatusCode::OK, response))
}

/// `POST /v1/reservations/{reservation_id}/release`
pub async fn release(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    OnReservation(reservation_id, body): OnReservation<ReleaseRequest>,
) -> Outcome<ReleaseResponse> {
    let release = Release {
        reservation_id,
        idempotency_key: body.request.idempotency_key,
        payload_hash: body.payload_hash,
        reason: body.request.reason,
    };
    let asked = Asked {
        reservation: Some(&release.reservation_id),
        ..Asked::default()
    };
    let released = state.ledger.release(&caller, &release, &cause).await;
    let released = released.map_err(|error| Refused(error_of(error, Some(asked))))?;
    let response = ReleaseResponse {
        status: ReleaseStatus::Released,
        released: amount(released.unit, released.released)?,
        balances: shown(&released.balances)?,
        evidence: None,
    };
    Ok(Answer(StatusCode::OK, response))
}

/// `POST /v1/reservations/{reservation_id}/extend`
pub async fn extend(
    State(state): State<AppState>,
    ByKey(caller): ByKey,
    OnReservation(reservation_id, body): OnReservation<ReservationExtendRequest>,
) -> Outcome<ReservationExtendResponse> {
    let extend = Extend {
        reservation_id,
        idempotency_key: body.request.idempotency_key,
        payload_hash: body.payload_hash,
        extend_by_ms: body.request.extend_by_ms,
        metadata: body.request.metadata,
    };
    let asked = Asked {
        reservation: Some(&extend.reservation_id),
        ..Asked::default()
    };
    let extended = state.ledger.extend(&caller, &extend).await;
    let extended = extended.map_err(|error| Refused(error_of(error, Some(asked))))?;
    let response = ReservationExtendResponse {
        status: ExtendStatus::Active,
        expires_at_ms: extended.expires_at_ms,
        remaining_ttl_ms: extended.remaining_ttl_ms,
        balances: shown(&extended.balances)?,
    };
    Ok(Answer(StatusCode::OK, response))
}

/// `POST /v1/events`
pub async fn post_event(
    State(state): State<AppState>,
    ByKey(caller): ByKey,
    Because(cause): Because,
    body: ApiJson<EventCreateRequest>,
) -> Outcome<EventCreateResponse> {
    let request = body.request;
    let path = ScopePath::enclosing(&request.subject).pop();
    let post = Post {
        idempotency_key: request.idempotency_key,
        payload_hash: body.payload_hash,
        subject: request.subject,
        action: request.action,
        actual: request.actual,
        overage_policy: request.overage_policy,
        metrics: request.metrics,
        client_time_ms: request.client_time_ms,
        metadata: request.metadata,
    };
    let asked = Asked {
        scope: path.as_ref(),
        amount: Some(post.actual),
        ..Asked::default()
    };
    let posted = state.ledger.post(&caller, &post, &cause).await;
    let posted = posted.map_err(|error| Refused(error_of(error, Some(asked))))?;
    let capped = posted.charged < post.actual.value();
    let charged = capped.then(|| amount(post.actual.unit(), posted.charged));
    let response = EventCreateResponse {
        status: EventStatus::Applied,
        event_id: posted.post_id,
        charged: charged.transpose()?,
        balances: shown(&posted.balances)?,
    };
    Ok(Answer(StatusCode::CREATED, response))
}

/// Ledgers as the wire shows them.
pub(super) fn shown(balances: &[budget::Balance]) -> Result<Vec<Balance>, Refused> {
    balances
        .iter()
        .map(|balance| {
            let figures = Figures {
                allocated: balance.allocated,
                spent: balance.spent,
                reserved: balance.reserved,
                debt: balance.debt,
                overdraft_limit: balance.overdraft_limit,
                is_over_limit: balance.is_over_limit,
            };
            let shown = Balance::new(&balance.scope, balance.unit, figures);
            shown.ok_or_else(|| unsound("a ledger has a negative figure"))
        })
        .collect()
}

pub(super) fn amount(unit: Unit, value: i64) -> Result<Amount, Refused> {
    Amount::new(unit, value).ok_or_else(|| unsound("a record has a negative amount"))
}

pub(super) fn unsound(what: &'static str) -> Refused {
    Refused(ApiError::internal(what))
}

/// A failure about which nothing of the request needs to be told.
pub(super) fn failed(error: LedgerError) -> Refused {
    Refused(error_of(error, None))
}
