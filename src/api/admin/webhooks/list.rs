//! Lists webhook subscriptions, of one owner or of all.

use serde_json::json;

use super::WebhookListResponse;
use crate::admin::webhooks::{OwnerFilter, WebhookFilter, WebhookSort};
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list};
use crate::api::operation::Declaration;
use crate::domain::event::types::EventType;
use crate::domain::webhook::Owner;

pub(in crate::api) const DECLARATION: Declaration =
    list::<AllWebhooks>("Lists webhook subscriptions", "A page of subscriptions.");

/// Describes the filter by status.
pub(super) const ABOUT_STATUS: &str = "The status of the subscriptions.";

struct AllWebhooks;

impl List for AllWebhooks {
    const NAME: &'static str = "webhooks";
    type Filter = WebhookFilter;
    type Sort = WebhookSort;
    type Response = WebhookListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<WebhookFilter, ApiError> {
        let about = "Owner of the subscriptions: a tenant, or `__system__` for the operator.";
        let tenant = parameters.text("tenant_id", about)?;
        let status = parameters.word("status", ABOUT_STATUS)?;
        // The set of types is open: one that is not known is in no list.
        let schema = || json!({"type": "string", "enum": EventType::WORDS});
        let about = "The event type that subscriptions select by name.";
        let any = |text: &str| Some(text.to_owned());
        let event_type = parameters.parsed("event_type", about, schema, (any, ""))?;
        let about = "Text that id or address must contain, in any case.";
        Ok(WebhookFilter {
            owner: match tenant.as_deref() {
                Some("system") => OwnerFilter::Of(Owner::System),
                tenant => OwnerFilter::named(tenant),
            },
            status,
            event_type,
            search: parameters.search(about)?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        Ok(call.state.webhooks.list(&call.query().await?).await?)
    }
}
