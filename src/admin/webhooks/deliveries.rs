//! The deliveries to a subscription.

use super::{WebhookError, Webhooks};
use crate::domain::caller::Caller;
use crate::domain::moment::Window;
use crate::domain::reservation::Record;
use crate::domain::webhook::{Delivery, DeliveryStatus};
use crate::store::admin::webhook_deliveries::DeliveryWalk;
use tracing::error;

/// The place of a row: when it was queued, and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryPlace {
    /// In milliseconds.
    pub at_ms: i64,
    /// The delivery's id.
    pub id: String,
}

/// Deliveries that are asked for.
#[derive(Debug, Clone)]
pub struct DeliveryQuery {
    /// Of this status.
    pub status: Option<DeliveryStatus>,
    /// Queued when.
    pub window: Window,
    /// Where the last page ended.
    pub after: Option<DeliveryPlace>,
    /// Rows at most.
    pub limit: usize,
}

/// A page of deliveries, newest first.
#[derive(Debug)]
pub struct DeliveryPage {
    /// In order.
    pub deliveries: Vec<Delivery>,
    /// Behind which place the next page starts, when there may be one.
    pub next: Option<DeliveryPlace>,
}

impl Webhooks {
    /// A page of the deliveries to a subscription. With a sparse filter it may be short, and its place goes on.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription.
    pub async fn deliveries(
        &self,
        caller: &Caller,
        id: &str,
        query: &DeliveryQuery,
    ) -> Result<DeliveryPage, WebhookError> {
        let id = self.parse_id(caller, id, "webhooks:read").await?;
        let after = query.after.as_ref();
        let walk = DeliveryWalk {
            subscription_id: &id,
            window: query.window,
            after: after.map(|place| (place.at_ms, place.id.as_str())),
            status: query.status.map(DeliveryStatus::as_str),
            rows: query.limit,
        };
        let found = self.store.list_deliveries(caller, &walk).await?;
        let readable = |(id, record): &(String, Record)| {
            let read = Delivery::from_record(id, record).inspect_err(|damage| {
                // One damaged record must not take the whole list away.
                error!(
                    delivery.id = id, error = %damage,
                    "the delivery `{id}` is left out of lists: {damage}"
                );
            });
            read.ok()
        };
        Ok(DeliveryPage {
            deliveries: found.rows.iter().filter_map(readable).collect(),
            next: found.last.map(|(at_ms, id)| DeliveryPlace { at_ms, id }),
        })
    }
}
