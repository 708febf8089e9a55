//! Pauses, resumes or deletes many webhook subscriptions.

use axum::response::Response;

use super::{WebhookBulkActionRequest, WebhookBulkActionResponse, bulk_request, response_of};
use crate::admin::webhooks::{OwnerFilter, WebhookFilter};
use crate::api::admin::extract::Change;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::domain::search::Search;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    bulk_action_webhooks,
    "Pauses, resumes or deletes up to 500 webhook subscriptions"
)
.takes_change::<WebhookBulkActionRequest>()
.returns::<WebhookBulkActionResponse>(200, "The outcome of each subscription.")
.refuses(&[409]);

async fn bulk_action_webhooks(
    change: Change<WebhookBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = &change.body;
    let owner = OwnerFilter::named(sent.filter.tenant_id.as_deref());
    let event_type = sent.filter.event_type.as_ref();
    let filter = WebhookFilter {
        owner,
        status: sent.filter.status,
        event_type: event_type.map(|name| name.as_str().to_owned()),
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
        .bulk_webhooks(&filter, sent.action, &bulk);
    response_of(&change.state, done.await)
}
