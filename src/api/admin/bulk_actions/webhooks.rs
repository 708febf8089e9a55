//! Pauses, resumes or deletes many webhook subscriptions.

use super::{BulkBody, EMPTY, bulk_action, response};
use crate::admin::webhooks::{OwnerFilter, WebhookFilter};
use crate::admin::{Admin, BulkRequest};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::domain::bulk::WebhookAction;
use crate::domain::event::types::EventTypeName;
use crate::domain::fields::{Blank, object};
use crate::domain::ids::IdempotencyKey;
use crate::domain::search::{SEARCH_CHARS_MAX, Search};
use crate::domain::webhook::WebhookStatus;
use crate::store::admin::bulk::BulkResponse;

pub(in crate::api) const BULK_ACTION: Declaration = declare!(
    bulk_action::<WebhookBulkActionRequest>,
    "Pauses, resumes or deletes up to 500 webhook subscriptions"
)
.takes_change::<WebhookBulkActionRequest>()
.returns::<WebhookBulkActionResponse>(200, "The outcome of each subscription.")
.refuses(&[409]);

object! {
    /// Selects webhook subscriptions; at least one member.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct WebhookBulkFilter: Read + Serialize {
        /// Tenant that owns the subscription; `__system__` for the operator's own.
        pub tenant_id: Option<String> { blank: Blank::Null },
        /// Status.
        pub status: Option<WebhookStatus>,
        /// Event type that the subscription names.
        pub event_type: Option<EventTypeName>,
        /// Text that id or address must contain, in any case.
        pub search: Option<String> { chars: ..=SEARCH_CHARS_MAX, blank: Blank::Null, trimmed: true },
    }
    check |filter, object| {
        if *filter == WebhookBulkFilter::default() {
            object.refuse(EMPTY);
        }
    }
}

object! {
    /// Applies one action to many webhook subscriptions.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WebhookBulkActionRequest: Read {
        /// Selects the subscriptions.
        pub filter: WebhookBulkFilter,
        /// Action.
        pub action: WebhookAction,
        /// Expected number of matches; with another number nothing is done.
        pub expected_count: Option<i64> { range: 0.. },
        /// Identifies this attempt: the same key within 15 minutes changes once.
        pub idempotency_key: IdempotencyKey { chars: 1..=128 },
    }
}

response! {
    /// The outcome of each webhook subscription.
    WebhookBulkActionResponse: WebhookAction
}

impl BulkBody for WebhookBulkActionRequest {
    type Filter = WebhookBulkFilter;

    fn parts(&self) -> (&Self::Filter, Option<i64>, &IdempotencyKey) {
        (&self.filter, self.expected_count, &self.idempotency_key)
    }

    async fn run(&self, admin: &Admin, bulk: &BulkRequest<'_>) -> Result<BulkResponse, ApiError> {
        let event_type = self.filter.event_type.as_ref();
        let filter = WebhookFilter {
            owner: OwnerFilter::named(self.filter.tenant_id.as_deref()),
            status: self.filter.status,
            event_type: event_type.map(|name| name.as_str().to_owned()),
            search: self.filter.search.as_deref().map(Search::new),
        };
        Ok(admin.bulk_webhooks(&filter, self.action, bulk).await?)
    }
}
