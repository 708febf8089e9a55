//! Suspends, reactivates or closes many tenants.

use axum::response::Response;

use super::{TenantBulkActionRequest, TenantBulkActionResponse, bulk_request, response_of};
use crate::admin::TenantFilter;
use crate::api::admin::extract::Change;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::domain::search::Search;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    bulk_action_tenants,
    "Suspends, reactivates or closes up to 500 tenants"
)
.takes_change::<TenantBulkActionRequest>()
.returns::<TenantBulkActionResponse>(200, "The outcome of each tenant.")
.refuses(&[409]);

async fn bulk_action_tenants(
    change: Change<TenantBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = &change.body;
    let filter = TenantFilter {
        status: sent.filter.status,
        parent_tenant_id: sent.filter.parent_tenant_id.clone(),
        search: sent.filter.search.as_deref().map(Search::new),
    };
    let bulk = bulk_request(
        &change.state,
        change.request(),
        sent.expected_count,
        &sent.filter,
    );
    let done = change
        .state
        .admin
        .bulk_tenants(&filter, sent.action, &bulk)
        .await;
    response_of(&change.state, done)
}
