//! `list_deliveries.lua`.

use crate::domain::caller::{Caller, ScriptCaller};
use crate::domain::ids::Partition;
use crate::domain::moment::Window;
use crate::domain::record::Record;
use crate::domain::webhook::SubscriptionId;
use crate::store::admin::target::Target;
use crate::store::signature::signature;
use crate::store::{Lane, OperationError, Store};

signature! {
    /// Reads the deliveries to a subscription, newest first.
    ///
    /// last_ms and last_id: up to which delivery was looked, empty where the list ends. The record of a key that holds no hash is
    /// empty.
    LIST_DELIVERIES: ListDeliveries -> ListDeliveriesReply = "admin/webhooks/list_deliveries", flags "no-writes,allow-oom";
    names { partition: Partition, caller: ScriptCaller<'a>, key_id of caller, subscription_id: &'a SubscriptionId }
    keys of partition {
        read api_key(key_id), tenant_key: tenant(tenant), webhook(subscription_id), deliveries(subscription_id);
    }
    builds { read delivery }
    args {
        /// Empty for the admin key.
        key_hash of caller,
        /// Of the API key.
        tenant of caller,
        delivery_prefix = delivery_prefix(),
        /// Or -inf.
        from_ms: String,
        /// Or +inf.
        to_ms: String,
        /// Of the score to_ms, what comes before it was seen.
        after_id: Option<&'a str>,
        /// At most.
        rows: usize,
        status: Option<&'a str>,
    }
    replies {
        unauthorized, forbidden, webhook_not_found,
        listed: Listed { last_ms: Option<i64>, last_id: String, id_record: Vec<(String, Record)> },
    }
    writes "Nothing."
}

/// Deliveries that are asked for, newest first.
#[derive(Debug)]
pub struct DeliveryWalk<'a> {
    /// To which subscription.
    pub subscription_id: &'a SubscriptionId,
    /// Queued when.
    pub window: Window,
    /// Up to which time and id was seen.
    pub after: Option<(i64, &'a str)>,
    /// Of which status.
    pub status: Option<&'a str>,
    /// Rows at most.
    pub rows: usize,
}

/// A page of deliveries.
#[derive(Debug)]
pub struct DeliveryRows {
    /// Ids and records.
    pub rows: Vec<(String, Record)>,
    /// Up to which time and id was looked; `None` at the end of the list.
    pub last: Option<(i64, String)>,
}

impl Store {
    /// A page of the deliveries to a subscription.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription.
    pub(crate) async fn list_deliveries(
        &self,
        caller: &Caller,
        target: &impl Target,
        walk: &DeliveryWalk<'_>,
    ) -> Result<DeliveryRows, OperationError> {
        let bound = |ms: Option<i64>, open: &str| ms.map_or(open.to_owned(), |ms| ms.to_string());
        let to_ms = walk.after.map(|(ms, _)| ms).or(walk.window.to_ms);
        let call = ListDeliveries {
            partition: match caller {
                Caller::Tenant(caller) => caller.partition,
                Caller::Admin(_) => walk.subscription_id.partition(),
            },
            caller: caller.into(),
            subscription_id: walk.subscription_id,
            from_ms: bound(walk.window.from_ms, "-inf"),
            to_ms: bound(to_ms, "+inf"),
            after_id: walk.after.map(|(_, id)| id),
            rows: walk.rows,
            status: walk.status,
        };
        let ListDeliveriesReply::Listed {
            last_ms,
            last_id,
            id_record: rows,
        } = self.run_for(Lane::Request, target, &call).await?;
        Ok(DeliveryRows {
            rows,
            last: last_ms.map(|ms| (ms, last_id)),
        })
    }
}
