//! Creates a webhook subscription of the API key's tenant.

use axum::extract::State;

use super::WebhookCreateResponse;
use super::create::create_for;
use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader};
use crate::api::operation::{Declaration, Operation, declare};
use crate::api::response::Returns;
use crate::api::state::AppState;
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::cause::Cause;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::webhook::{Owner, WebhookCreateRequest};

pub(in crate::api) const DECLARATION: Declaration = declare!(create_own_webhook, "Creates a webhook subscription of the API key's tenant; the response is the only one that shows its secret").idempotent().takes::<WebhookCreateRequest>().returns::<WebhookCreateResponse>(201, "The new subscription.").refuses(&[409]);

async fn create_own_webhook(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: RuntimeCaller,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    body: AdminJson<WebhookCreateRequest>,
) -> Returns<WebhookCreateResponse> {
    let owner = Owner::Tenant(caller.tenant.clone());
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let caller = Caller::Tenant(caller);
    create_for(&state, operation, &caller, &owner, &body.request, &request).await
}
