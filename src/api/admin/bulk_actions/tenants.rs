//! Does the same to many tenants.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::{TenantBulkActionRequest, TenantBulkActionResponse, bulk_request, response_of};
use crate::admin::{Request, TenantFilter};
use crate::api::admin::extract::AdminJson;
use crate::api::body::idempotency_key;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::state::AppState;
use crate::domain::cause::Cause;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::search::Search;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    bulk_action_tenants,
    "Suspends, reactivates or closes up to 500 tenants"
)
.idempotent()
.takes::<TenantBulkActionRequest>()
.returns::<TenantBulkActionResponse>(200, "The outcome of each tenant.")
.refuses(&[409]);

async fn bulk_action_tenants(
    State(state): State<AppState>,
    cause: Cause,
    headers: HeaderMap,
    body: AdminJson<TenantBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = body.request;
    let key = idempotency_key(&headers, Some(&sent.idempotency_key))?;
    let filter = TenantFilter {
        status: sent.filter.status,
        parent_tenant_id: sent.filter.parent_tenant_id.clone(),
        search: sent.filter.search.as_deref().map(Search::new),
    };
    let payload_hash = PayloadHash::of_body(&body.sent);
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload_hash,
    };
    let bulk = bulk_request(&state, request, sent.expected_count, &sent.filter);
    let done = state.admin.bulk_tenants(&filter, sent.action, &bulk).await;
    response_of(&state, done, None)
}
