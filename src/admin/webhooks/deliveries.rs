//! Lists the deliveries to a subscription.

use super::{WebhookTarget, Webhooks};
use crate::domain::caller::Caller;
use crate::domain::moment::Window;
use crate::domain::webhook::{Delivery, DeliveryStatus};
use crate::listing::{ListQuery, OneOrder, Page, Position, readable};
use crate::store::admin::webhook_deliveries::{ListDeliveries, ListDeliveriesReply};
use crate::store::{Lane, OperationError};

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
        let bound = |ms: Option<i64>, open: &str| ms.map_or(open.to_owned(), |ms| ms.to_string());
        let (window, after) = (query.filter.window, query.after.as_ref());
        let after = after.and_then(|after| Some((after.number()?, after.id.as_str())));
        let call = ListDeliveries {
            partition: match caller {
                Caller::Tenant(caller) => caller.partition,
                Caller::Admin(_) => target.id.partition(),
            },
            caller: caller.into(),
            subscription_id: &target.id,
            from_ms: bound(window.from_ms, "-inf"),
            to_ms: bound(after.map(|(ms, _)| ms).or(window.to_ms), "+inf"),
            after_id: after.map(|(_, id)| id),
            rows: query.limit,
            status: query.filter.status.map(DeliveryStatus::as_str),
        };
        let ListDeliveriesReply::Listed {
            last_ms,
            last_id,
            id_record,
        } = self.store.run_for(Lane::Request, &target, &call).await?;
        let next = last_ms.map(|ms| Position::new(ms, last_id));
        let page = Page::new(id_record, query.sort, next);
        Ok(page.filter_map(|(id, record)| {
            let record = record.with("delivery_id", &*id);
            readable("delivery", &id, Delivery::from_record(&record))
        }))
    }
}
