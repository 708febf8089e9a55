//! Lists the deliveries to a webhook subscription.

use super::WebhookDeliveryListResponse;
use crate::admin::webhooks::DeliveryFilter;
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list};
use crate::api::operation::Declaration;
use crate::listing::OneOrder;

pub(in crate::api) const DECLARATION: Declaration = list::<Deliveries>(
    "Lists the deliveries to a webhook subscription, newest first",
    "A page of deliveries.",
)
.refuses(&[404]);

struct Deliveries;

impl List for Deliveries {
    const NAME: &'static str = "deliveries";
    type Filter = DeliveryFilter;
    type Sort = OneOrder;
    type Response = WebhookDeliveryListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<DeliveryFilter, ApiError> {
        let about = [
            "Earliest time of queueing, inclusive.",
            "Latest time of queueing, inclusive.",
        ];
        Ok(DeliveryFilter {
            status: parameters.word("status", "The status of the deliveries.")?,
            window: parameters.window(["from", "to"], about)?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let id = &call.path_id;
        call.list.bind("subscription_id", id);
        let (webhooks, query) = (&call.state.webhooks, call.query().await?);
        Ok(webhooks.deliveries(&call.caller, id, &query).await?)
    }
}
