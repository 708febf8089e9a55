//! Does the same to many tenants.

use axum::extract::State;
use axum::response::Response;

use super::{TenantBulkActionRequest, TenantBulkActionResponse, bulk_request, response_of};
use crate::admin::TenantFilter;
use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::state::AppState;
use crate::domain::ids::IdempotencyKey;
use crate::domain::search::Search;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    bulk_action_tenants,
    "Suspends, reactivates or closes up to 500 tenants"
)
.idempotent()
.takes::<TenantBulkActionRequest>()
.returns::<TenantBulkActionResponse>(200, "The outcome of each tenant.")
.refuses(&[409]);

impl ChangeBody for TenantBulkActionRequest {
    const HAS_KEY: bool = true;

    fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        Some(&self.idempotency_key)
    }
}

async fn bulk_action_tenants(
    State(state): State<AppState>,
    change: Change<TenantBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = &change.body;
    let filter = TenantFilter {
        status: sent.filter.status,
        parent_tenant_id: sent.filter.parent_tenant_id.clone(),
        search: sent.filter.search.as_deref().map(Search::new),
    };
    let bulk = bulk_request(&state, change.request(), sent.expected_count, &sent.filter);
    let done = state.admin.bulk_tenants(&filter, sent.action, &bulk).await;
    response_of(&state, done, None)
}
