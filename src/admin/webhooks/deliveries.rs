//! Lists the deliveries to a subscription.

use super::{WebhookTarget, Webhooks};
use crate::domain::caller::Caller;
use crate::domain::moment::Window;
use crate::domain::webhook::{Delivery, DeliveryStatus};
use crate::listing::{ListQuery, OneOrder, Page, Position, readable};
use crate::store::admin::webhook_deliveries::{ListDeliveries, ListDeliveriesReply};
use crate::store::target::Target as _;
use crate::store::{Day, StoreError};

/// Days after which no delivery is kept.
const KEPT_DAYS: i64 = 16;

/// Which deliveries are asked for; all of it must hold.
#[derive(Debug, Clone)]
pub struct DeliveryFilter {
    /// Of this status.
    pub status: Option<DeliveryStatus>,
    /// Queued when.
    pub window: Window,
}

/// What is asked of the list of a subscription's deliveries, newest first: a position is when one was queued, in
/// milliseconds, and its entry in the index of the day, which is empty where that day was passed.
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
    ) -> Result<Page<Delivery, OneOrder>, StoreError> {
        let id = self.parse_id(caller, id, "webhooks:read").await?;
        let (window, after) = (query.filter.window, query.after.as_ref());
        let after = after.and_then(|after| Some((after.number()?, after.id.clone())));
        let today = self.store.today();
        let day_of = |ms: Option<i64>| ms.map(Day::of_ms);
        let last = day_of(after.as_ref().map(|(ms, _)| *ms).or(window.to_ms));
        // Clocks of replicas may be behind that of the store.
        let mut day = last.map_or(today.plus(1), |last| last.min(today.plus(1)));
        let oldest = today.plus(-KEPT_DAYS);
        let oldest = day_of(window.from_ms).map_or(oldest, |first| first.max(oldest));
        let target = WebhookTarget { id, tenant: None };
        let bound = |ms: Option<i64>, open: &str| ms.map_or(open.to_owned(), |ms| ms.to_string());
        let entry = after.as_ref().map(|(_, entry)| entry.as_str());
        let mut rows = Vec::new();
        let next = loop {
            let call = ListDeliveries {
                partition: match caller {
                    Caller::Tenant(caller) => caller.partition,
                    Caller::Admin(_) => target.id.partition(),
                },
                caller: caller.into(),
                subscription_id: &target.id,
                queued_on: day,
                from_ms: bound(window.from_ms, "-inf"),
                to_ms: bound(window.to_ms, "+inf"),
                after: entry.filter(|entry| !entry.is_empty()),
                rows: query.limit - rows.len(),
                status: query.filter.status.map(DeliveryStatus::as_str),
            };
            let ListDeliveriesReply::Listed {
                last_ms,
                last,
                id_record,
            } = target.run(&self.store, &call).await?;
            rows.extend(id_record.into_iter().filter_map(|(id, record)| {
                readable("delivery", &id, Delivery::from_stored(&id, &record))
            }));
            // The day has more.
            if let Some(ms) = last_ms {
                break Some(Position::new(ms, last));
            }
            if day <= oldest {
                break None;
            }
            if rows.len() == query.limit {
                break Some(Position::new(day.start_ms() - 1, String::new()));
            }
            day = day.plus(-1);
        };
        Ok(Page::new(rows, query.sort, next))
    }
}
