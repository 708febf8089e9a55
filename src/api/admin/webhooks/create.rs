//! Creates a webhook subscription for the operator or any tenant.

use axum::extract::State;
use axum::http::StatusCode;

use super::{WebhookCreateResponse, error_of};
use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader};
use crate::api::admin::webhooks::queries::OwnerQuery;
use crate::api::extract::RawQuery;
use crate::api::operation::{Declaration, Operation, declare, parameters};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::webhook::{Owner, WebhookCreateRequest};

pub(in crate::api) const DECLARATION: Declaration = declare!(
    create_webhook,
    "Creates a webhook subscription; the response is the only one that shows its signing secret"
)
.query(|| {
    let owner = "Whose it is. Absent: the operator's own, for events of all tenants.";
    vec![parameters::query("tenant_id", owner, parameters::text())]
})
.idempotent()
.takes::<WebhookCreateRequest>()
.returns::<WebhookCreateResponse>(201, "The new subscription.")
.refuses(&[404, 409]);

async fn create_webhook(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    RawQuery(query): RawQuery,
    body: AdminJson<WebhookCreateRequest>,
) -> Returns<WebhookCreateResponse> {
    let owner = OwnerQuery::parse(&query)?.owner;
    let target = [("tenant_id", owner.as_str())];
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body_and_target(&body.sent, &target),
    };
    create_for(&state, operation, &caller, &owner, &body.request, &request).await
}

/// Creates a subscription of `owner`.
pub(super) async fn create_for(
    state: &AppState,
    operation: &Operation,
    caller: &Caller,
    owner: &Owner,
    settings: &WebhookCreateRequest,
    request: &Request<'_>,
) -> Returns<WebhookCreateResponse> {
    let created = state
        .webhooks
        .create(caller, owner, settings, operation.name, request)
        .await;
    let created = created.map_err(|error| error_of(error, owner.as_str(), ""))?;
    let response = WebhookCreateResponse::new(created.subscription, &created.signing_secret);
    Ok(CheckedJson(StatusCode::CREATED, response))
}
