//! `restore_lanes.lua`: what is open of a subscription is in its lanes, and counted.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ids::Partition;
use crate::domain::webhook::SubscriptionId;
use crate::store::records::{NO_ARGS, command, read_or_default};
use crate::store::signature::{Refused, signature};
use crate::store::{Day, Lane, Lease, Store, StoreError};

/// Deliveries of a day that are read at once.
const ROWS: isize = 500;

/// Days of deliveries that an index keeps, and how many times [`ROWS`] are read of them at most.
const DAYS: i64 = 16;
const READS_MAX: usize = 40;

/// Open deliveries that one call restores: more than there can be.
const OPEN_MAX: usize = 4_000;

signature! {
    /// Puts the deliveries of a subscription that are open, and in none of its lanes, back into these in order: before what is there.
    /// Counts anew what is open and in flight, which may be wrong where a lane or a record was deleted.
    ///
    /// restored: how many were in no lane. damaged: the key of another type for which nothing was done, and why; or ''.
    RESTORE_LANES: RestoreLanes -> RestoreLanesReply = "dispatcher/restore_lanes", flags "allow-oom";
    names { today: Day }
    keys of partition of fencing_token {
        read lease();
        write lanes();
        read claims();
        write open: open_deliveries();
        read index: deliveries(subscription_id, today);
    }
    builds { read delivery, webhook, tenant; write lane, window }
    args {
        fencing_token: Lease,
        delivery_prefix = delivery_prefix(),
        lane_prefix = lane_prefix(),
        window_prefix = window_prefix(),
        webhook_prefix = webhook_prefix(),
        tenant_prefix = tenant_prefix(),
        subscription_id: &'a SubscriptionId,
        /// How many of its deliveries had ever been queued when the caller began to look.
        queued: i64,
        /// Those that were open then, oldest first.
        deliveries: &'a [String],
    }
    replies { fenced, moved: Moved, restored: Restored { count: i64, damaged: String } }
    writes "On restored: lanes and their times, retries; the counts of the window and of the owner."
}

/// What was found open of a subscription.
#[derive(Debug, Default)]
pub(crate) struct OpenDeliveries {
    /// How many had ever been queued before.
    pub queued: i64,
    /// Oldest first.
    pub ids: Vec<String>,
}

/// The number of a row of the index, and its delivery.
fn row(text: &str) -> Option<(i64, &str)> {
    let (number, id) = text.split_once(' ')?;
    Some((number.parse().ok()?, id))
}

impl Store {
    /// Finds the open deliveries of a subscription by the days of its index, newest first; ends where it has found as many as are
    /// counted. `None` where that takes more rows than it reads.
    pub(crate) async fn open_deliveries_of(
        &self,
        id: &SubscriptionId,
        today: Day,
    ) -> Result<Option<OpenDeliveries>, StoreError> {
        let partition = id.partition();
        let window = self.keys().window(partition, id.as_str());
        let counts = command("HMGET", window, ("open", "queued"));
        let (open, queued): (Option<usize>, Option<i64>) = self.read(counts).await?;
        let (open, queued) = (open.unwrap_or_default(), queued.unwrap_or_default());
        // By number, which is the order in which they were queued.
        let (mut found, mut reads) = (BTreeMap::new(), 0);
        'days: for ago in 0..DAYS {
            let index = self
                .keys()
                .deliveries(partition, id.as_str(), today.plus(-ago));
            let mut from = 0;
            loop {
                if found.len() >= open || found.len() > OPEN_MAX {
                    break 'days;
                }
                if reads == READS_MAX {
                    return Ok(None);
                }
                reads += 1;
                let range = command("ZREVRANGE", index.clone(), (from, from + ROWS - 1));
                let rows: Vec<String> = self.read(range).await?;
                // The script finds what was queued meanwhile.
                let before = rows.iter().filter_map(|text| row(text));
                let before: Vec<_> = before.filter(|(number, _)| *number <= queued).collect();
                found.extend(self.open_among(partition, &before).await?);
                if rows.len() < ROWS.unsigned_abs() {
                    break;
                }
                from += ROWS;
            }
        }
        let passed = found.len().saturating_sub(OPEN_MAX);
        Ok(Some(OpenDeliveries {
            queued,
            ids: found.into_values().skip(passed).collect(),
        }))
    }

    /// Which of these are open.
    async fn open_among(
        &self,
        partition: Partition,
        rows: &[(i64, &str)],
    ) -> Result<Vec<(i64, String)>, StoreError> {
        let read = |(_, id): &(i64, &str)| {
            let key = self.keys().delivery(partition, id);
            command("HMGET", key, ("subscription", "status"))
        };
        let commands: Vec<_> = rows.iter().map(read).collect();
        let replies = self.query_each(&commands).await?;
        let is_open = |reply: Result<_, StoreError>| {
            let (subscription, status): (Option<String>, Option<String>) =
                reply.ok().map(read_or_default).unwrap_or_default();
            subscription.is_some() && !matches!(status.as_deref(), Some("SUCCESS" | "FAILED"))
        };
        let open = replies.into_iter().map(is_open);
        Ok(rows
            .iter()
            .zip(open)
            .filter(|(_, is_open)| *is_open)
            .map(|((number, id), _)| (*number, (*id).to_owned()))
            .collect())
    }

    /// The subscriptions of a partition that have something in flight by their windows; those that are gone are not found.
    pub(crate) async fn subscriptions_in_flight(
        &self,
        partition: Partition,
    ) -> Result<BTreeSet<SubscriptionId>, StoreError> {
        let owners = command("HKEYS", self.keys().open_deliveries(partition), NO_ARGS);
        let owners: Vec<String> = self.read(owners).await?;
        let mut found = BTreeSet::new();
        for owner in owners {
            let list = command("ZRANGE", self.keys().webhooks(partition, &owner), (0, -1));
            let ids: Vec<String> = self.read(list).await?;
            let read = |id: &String| command("HGET", self.keys().window(partition, id), "flying");
            let commands: Vec<_> = ids.iter().map(read).collect();
            for (id, reply) in ids.iter().zip(self.query_each(&commands).await?) {
                let flying: Option<i64> = reply.ok().map(read_or_default).unwrap_or_default();
                if flying.is_some_and(|count| count > 0) {
                    found.extend(SubscriptionId::parse(id));
                }
            }
        }
        Ok(found)
    }

    /// Restores the lanes and counts of a subscription of a leased partition; `None` where another holds the lease.
    pub(crate) async fn restore_lanes(
        &self,
        call: &RestoreLanes<'_>,
    ) -> Result<Option<RestoreLanesReply>, StoreError> {
        match self.run_on(Lane::Background, call).await? {
            Ok(reply) => Ok(Some(reply)),
            Err(Refused::Fenced) => Ok(None),
            Err(refused) => Err(refused.unexpected(&RESTORE_LANES)),
        }
    }
}
