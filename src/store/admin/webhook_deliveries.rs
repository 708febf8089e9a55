//! `list_deliveries.lua`.

use crate::domain::caller::Caller;
use crate::domain::moment::Window;
use crate::domain::record::Record;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::webhook::SubscriptionId;
use crate::driver::reply::Reply;
use crate::store::admin::{AdminError, caller_words, refused};
use crate::store::scripts::LIST_DELIVERIES;
use crate::store::{Arg, Store};

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
    pub async fn list_deliveries(
        &self,
        caller: &Caller,
        walk: &DeliveryWalk<'_>,
    ) -> Result<DeliveryRows, AdminError> {
        let keys = self.keys();
        let (partition, tenant) = match caller {
            Caller::Tenant(caller) => (caller.partition, caller.tenant.as_str()),
            Caller::Admin(_) => (walk.subscription_id.partition(), ""),
        };
        let (key_hash, key_id) = caller_words(caller);
        let id = walk.subscription_id.as_str();
        let key_names = [
            keys.api_key(partition, key_id),
            keys.tenant(partition, tenant),
            keys.webhook(partition, id),
            keys.deliveries(partition, id),
        ];
        let bound = |ms: Option<i64>, open: &str| ms.map_or(open.to_owned(), |ms| ms.to_string());
        let to_ms = walk.after.map(|(ms, _)| ms).or(walk.window.to_ms);
        let prefix = keys.delivery(partition, "");
        let (from, to) = (bound(walk.window.from_ms, "-inf"), bound(to_ms, "+inf"));
        let args = [
            Arg::from(key_hash),
            Arg::from(tenant),
            Arg::from(&prefix),
            Arg::from(&from),
            Arg::from(&to),
            Arg::from(walk.after.map(|(_, id)| id)),
            Arg::from(walk.rows as i64),
            Arg::from(walk.status),
        ];
        let reply = self.call(&LIST_DELIVERIES, &key_names, &args).await?;
        let mut reply = Reply::new(&LIST_DELIVERIES, reply)?;
        match reply.next_str()?.as_str() {
            "listed" => {}
            "not_found" => return Err(AdminRefusal::WebhookNotFound.into()),
            other => return Err(refused(other, reply)),
        }
        let (last_ms, last_id) = (reply.next_str()?, reply.next_str()?);
        let last = last_ms.parse().ok().map(|ms| (ms, last_id));
        let mut rows = Vec::with_capacity(reply.len() / 2);
        while !reply.is_empty() {
            let id = reply.next_str()?;
            rows.push((id, Record::from_pairs(reply.next_array()?.rest()?)));
        }
        Ok(DeliveryRows { rows, last })
    }
}
