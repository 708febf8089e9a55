//! `list_deliveries.lua`.

use crate::domain::caller::ScriptCaller;
use crate::domain::ids::Partition;
use crate::domain::record::Record;
use crate::domain::webhook::SubscriptionId;
use crate::store::Day;
use crate::store::signature::signature;

signature! {
    /// Reads deliveries of a day to a subscription, newest first.
    ///
    /// last_ms and last: up to which delivery was looked, empty where the day ends. The record of a key that holds no hash is
    /// empty.
    LIST_DELIVERIES: ListDeliveries -> ListDeliveriesReply = "admin/webhooks/list_deliveries", flags "no-writes,allow-oom";
    names { partition: Partition, caller: ScriptCaller<'a>, key_id of caller, subscription_id: &'a SubscriptionId, queued_on: Day }
    keys of partition {
        read api_key(key_id), tenant_key: tenant(tenant), webhook(subscription_id), deliveries(subscription_id, queued_on);
    }
    builds { read delivery() }
    args {
        key_hash of caller,
        /// Of the API key.
        tenant of caller,
        /// The lowest score, or -inf.
        from_ms: String,
        /// Or +inf.
        to_ms: String,
        /// The last entry that was seen, if one was.
        after: Option<&'a str>,
        rows: usize,
        status: Option<&'a str>,
    }
    replies {
        unauthorized, forbidden, webhook_not_found, scope_forbidden,
        listed: Listed { last_ms: Option<i64>, last: String, id_record: Vec<(String, Record)> },
    }
    writes "Nothing."
}
