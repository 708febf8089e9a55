//! Lists the deliveries to a subscription.

use super::{WebhookTarget, Webhooks};
use crate::domain::caller::Caller;
use crate::domain::moment::Window;
use crate::domain::webhook::{Delivery, DeliveryStatus};
use crate::listing::{ListQuery, OneOrder, Page, Position, readable};
use crate::store::OperationError;
use crate::store::admin::webhook_deliveries::DeliveryWalk;

/// Which deliveries are asked for; all of it must hold.
#[derive(Debug, Clone)]
pub struct DeliveryFilter {
    /// Of this status.
    pub status: Option<DeliveryStatus>,
    /// Queued when.
    pub window: Window,
}

/// What is asked of the list of a subscription's deliveries, newest first: a position is when one was queued, in
/// milliseconds, and its id.
pub type DeliveryQuery = ListQuery<DeliveryFilter, OneOrder>;

impl Webhooks {
    /// A page of the deliveries to a subscription. With a sparse filter it may be short.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription.
    pub async fn deliveries(
        &self,
        caller: &Caller,
        id: &str,
        query: &DeliveryQuery,
    ) -> Result<Page<Delivery, OneOrder>, OperationError> {
        let id = self.parse_id(caller, id, "webhooks:read").await?;
        let target = WebhookTarget { id, tenant: None };
        let after = query.after.as_ref();
        let walk = DeliveryWalk {
            subscription_id: &target.id,
            window: query.filter.window,
            after: after.and_then(|after| Some((after.number()?, after.id.as_str()))),
            status: query.filter.status.map(DeliveryStatus::as_str),
            rows: query.limit,
        };
        let listed = self.store.list_deliveries(caller, &target, &walk).await?;
        let next = listed.last.map(|(at_ms, id)| Position::new(at_ms, id));
        let page = Page::new(listed.rows, query.sort, next);
        Ok(page.filter_map(|(id, record)| {
            let record = record.with("delivery_id", &*id);
            readable("delivery", &id, Delivery::from_record(&record))
        }))
    }
}
