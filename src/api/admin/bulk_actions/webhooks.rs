//! Does the same to many webhook subscriptions.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::{WebhookBulkActionRequest, WebhookBulkActionResponse, bulk_request, response_of};
use crate::admin::Request;
use crate::admin::webhooks::{OwnerFilter, WebhookFilter};
use crate::api::admin::extract::AdminJson;
use crate::api::body::idempotency_key;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::state::AppState;
use crate::domain::cause::Cause;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::search::Search;
use crate::domain::webhook::Owner;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    bulk_action_webhooks,
    "Pauses, resumes or deletes up to 500 webhook subscriptions"
)
.idempotent()
.takes::<WebhookBulkActionRequest>()
.returns::<WebhookBulkActionResponse>(200, "The outcome of each subscription.")
.refuses(&[409]);

async fn bulk_action_webhooks(
    State(state): State<AppState>,
    cause: Cause,
    headers: HeaderMap,
    body: AdminJson<WebhookBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = body.request;
    let key = idempotency_key(&headers, Some(&sent.idempotency_key))?;
    let owner = OwnerFilter::named(sent.filter.tenant_id.as_deref());
    let tenant = owner.owner().and_then(Owner::tenant).cloned();
    let event_type = sent.filter.event_type.as_ref();
    let filter = WebhookFilter {
        owner,
        status: sent.filter.status,
        event_type: event_type.map(|name| name.as_str().to_owned()),
        search: sent.filter.search.as_deref().map(Search::new),
    };
    let payload_hash = PayloadHash::of_body(&body.sent);
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload_hash,
    };
    let bulk = bulk_request(&state, request, sent.expected_count, &sent.filter);
    let done = state.admin.bulk_webhooks(&filter, sent.action, &bulk);
    response_of(&state, done.await, tenant)
}
