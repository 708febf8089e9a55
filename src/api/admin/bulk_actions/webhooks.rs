//! Does the same to many webhook subscriptions.

use axum::extract::State;
use axum::response::Response;

use super::{WebhookBulkActionRequest, WebhookBulkActionResponse, bulk_request, response_of};
use crate::admin::webhooks::{OwnerFilter, WebhookFilter};
use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::state::AppState;
use crate::domain::ids::IdempotencyKey;
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

impl ChangeBody for WebhookBulkActionRequest {
    const HAS_KEY: bool = true;

    fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        Some(&self.idempotency_key)
    }
}

async fn bulk_action_webhooks(
    State(state): State<AppState>,
    change: Change<WebhookBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = &change.body;
    let owner = OwnerFilter::named(sent.filter.tenant_id.as_deref());
    let tenant = owner.owner().and_then(Owner::tenant).cloned();
    let event_type = sent.filter.event_type.as_ref();
    let filter = WebhookFilter {
        owner,
        status: sent.filter.status,
        event_type: event_type.map(|name| name.as_str().to_owned()),
        search: sent.filter.search.as_deref().map(Search::new),
    };
    let bulk = bulk_request(&state, change.request(), sent.expected_count, &sent.filter);
    let done = state.admin.bulk_webhooks(&filter, sent.action, &bulk);
    response_of(&state, done.await, tenant)
}
