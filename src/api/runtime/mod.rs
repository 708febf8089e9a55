//! The runtime plane: what agents and their gateways call.

pub mod balances;
pub mod reservations;

use axum::extract::State;

use crate::api::errors::ApiError;
use crate::api::extract::{RuntimeJson, runtime_bodies};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::cause::Cause;
use crate::domain::ids::ReservationId;
use crate::domain::refusal::AccessRefusal;
use crate::domain::reservation::{
    CommitRequest, CommitResponse, DecisionRequest, DecisionResponse, ReleaseRequest,
    ReleaseResponse, ReservationCreateRequest, ReservationCreateResponse,
};
use crate::evidence::Endpoint;
use crate::ledger::{
    EventCreateRequest, EventCreateResponse, ReservationExtendRequest, ReservationExtendResponse,
};
use crate::store::StoreError;

runtime_bodies!(
    DecisionRequest: Some(Endpoint::Decide),
    ReservationCreateRequest: Some(Endpoint::Reserve),
    CommitRequest: Some(Endpoint::Commit),
    ReleaseRequest: Some(Endpoint::Release),
    ReservationExtendRequest: None,
    EventCreateRequest: None,
);

pub(in crate::api) const DECIDE: Declaration = declare!(
    decide,
    "Decides whether an action would be allowed; holds nothing"
)
.takes_change::<DecisionRequest>()
.returns::<DecisionResponse>(200, "The decision, a denial included.")
.refuses(&[409]);

async fn decide(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    RuntimeJson((), body): RuntimeJson<DecisionRequest>,
) -> Returns<DecisionResponse> {
    let response = state.ledger.decide(&caller, &body, &cause).await?;
    Ok(CheckedJson::ok(response))
}

pub(in crate::api) const RESERVE: Declaration = declare!(
    reserve,
    "Holds an amount on every budget that encloses the subject, or on none"
)
.takes_change::<ReservationCreateRequest>()
.returns::<ReservationCreateResponse>(200, "The hold, or the outcome of a dry run.")
.refuses(&[404, 409]);

async fn reserve(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    RuntimeJson((), body): RuntimeJson<ReservationCreateRequest>,
) -> Returns<ReservationCreateResponse> {
    let response = state.ledger.reserve(&caller, &body, &cause).await?;
    Ok(CheckedJson::ok(response))
}

pub(in crate::api) const COMMIT: Declaration = declare!(
    commit,
    "Charges what an action cost and returns the rest of its hold"
)
.takes_change::<CommitRequest>()
.returns::<CommitResponse>(200, "What was charged.")
.refuses(&[404, 409, 410]);

async fn commit(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    RuntimeJson(id, body): RuntimeJson<CommitRequest, ReservationId>,
) -> Returns<CommitResponse> {
    let response = state.ledger.commit(&caller, &id, &body, &cause).await?;
    Ok(CheckedJson::ok(response))
}

pub(in crate::api) const RELEASE: Declaration =
    declare!(release, "Returns a hold without a charge")
        .takes_change::<ReleaseRequest>()
        .returns::<ReleaseResponse>(200, "What was returned.")
        .refuses(&[404, 409, 410]);

async fn release(
    State(state): State<AppState>,
    caller: Caller,
    cause: Cause,
    RuntimeJson(id, body): RuntimeJson<ReleaseRequest, ReservationId>,
) -> Returns<ReleaseResponse> {
    let response = state.ledger.release(&caller, &id, &body, &cause).await?;
    Ok(CheckedJson::ok(response))
}

pub(in crate::api) const EXTEND: Declaration = declare!(extend, "Extends a reservation")
    .takes_change::<ReservationExtendRequest>()
    .returns::<ReservationExtendResponse>(200, "The new expiry.")
    .refuses(&[404, 409, 410]);

async fn extend(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    RuntimeJson(id, body): RuntimeJson<ReservationExtendRequest, ReservationId>,
) -> Returns<ReservationExtendResponse> {
    let response = state.ledger.extend(&caller, &id, &body).await?;
    Ok(CheckedJson::ok(response))
}

pub(in crate::api) const CREATE_EVENT: Declaration = declare!(
    create_event,
    "Charges what was already spent, without a reservation"
)
.takes_change::<EventCreateRequest>()
.returns::<EventCreateResponse>(201, "What was charged.")
.refuses(&[404, 409]);

async fn create_event(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    RuntimeJson((), body): RuntimeJson<EventCreateRequest>,
) -> Returns<EventCreateResponse> {
    let response = state.ledger.charge(&caller, &body, &cause).await?;
    Ok(CheckedJson::created(response))
}

/// A tenant may name itself in a filter, and nobody else.
///
/// # Errors
/// 403 for another tenant; before that, 401 when the key is not valid.
async fn own_tenant(
    state: &AppState,
    caller: &RuntimeCaller,
    named: Option<&str>,
) -> Result<(), ApiError> {
    if named.is_none_or(|named| named == caller.tenant.as_str()) {
        return Ok(());
    }
    state.ledger.authenticate(caller, "").await?;
    Err(StoreError::from(AccessRefusal::OtherTenant).into())
}
