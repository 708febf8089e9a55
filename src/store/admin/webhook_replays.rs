//! `begin_replay.lua`, `queue_replay.lua` and `end_replay.lua`: replays up to where a dispatcher takes them; and the events of
//! all tenants that the view does not have yet.

use crate::domain::ids::{Partition, TenantId};
use crate::domain::log_entry::EntryId;
use crate::domain::moment::Window;
use crate::domain::record::Record;
use crate::domain::webhook::{DeliveryId, Owner, SubscriptionId};
use crate::driver::script::Counted;
use crate::store::dispatcher::deliveries::EventPlace;
use crate::store::dispatcher::outbox::EventRange;
use crate::store::dispatcher::views::Row;
use crate::store::records::{NO_ARGS, command};
use crate::store::signature::signature;
use crate::store::{Day, OnFailure, Pair, Store, StoreError};

signature! {
    /// Claims the right to choose events for a replay of a subscription. The claim lapses, should the replica die.
    BEGIN_REPLAY: BeginReplay -> BeginReplayReply = "admin/webhooks/begin_replay";
    names { subscription_id: &'a SubscriptionId }
    keys of partition of subscription_id { write replay_lock(subscription_id); }
    args { token: &'a str, claim_ms: i64 }
    replies { locked, claimed: Claimed }
    writes "On claimed: the lock."
}

signature! {
    /// Gives a claim back of which nothing came.
    END_REPLAY: EndReplay -> EndReplayReply = "admin/webhooks/end_replay", flags "allow-oom";
    names { subscription_id: &'a SubscriptionId }
    keys of partition of subscription_id { write replay_lock(subscription_id); }
    args { token: &'a str }
    replies { lost: Lost, ended: Ended }
    writes "On ended: the lock goes."
}

signature! {
    /// Keeps the deliveries of a replay in their order, for the dispatcher, and makes of the claim the lock of the replay.
    ///
    /// Where the subscription has stopped being active meanwhile, nothing is kept. count: how many were.
    QUEUE_REPLAY: QueueReplay -> QueueReplayReply = "admin/webhooks/queue_replay";
    keys of partition of owner {
        read webhook(subscription_id);
        write tenant_key: tenant(owner), replay_lock(subscription_id), replay(replay_id), replay_events(replay_id), replays(),
            audit_log: audit(owner, day), chain(owner), unsealed(), days();
    }
    args {
        day,
        owner: &'a Owner,
        subscription_id: &'a SubscriptionId,
        /// '' where no claim is held.
        token: Option<&'a str>,
        replay_id: &'a str,
        lock_ms: i64,
        keep_ms: i64,
        /// As their key holds them.
        deliveries: Counted<&'a [String]>,
        audit: &'a [Pair],
    }
    replies { clock, webhook_not_found, tenant_unreadable, tenant_closed, lost: Lost, queued: Queued { count: i64 } }
    writes "On queued: where there are deliveries, the replay, its lock and its place in the queue; the audit entry."
}

/// A delivery of a replay as it is kept until it is queued. trace: see [`trace_of`](crate::domain::webhook::trace_of).
pub fn kept_delivery(id: &DeliveryId, event_type: &str, place: &EventPlace, trace: &str) -> String {
    format!("{id} {event_type} {place} {trace}")
}

/// Places in outboxes.
type Places = Vec<(Partition, Option<EntryId>)>;

/// Outboxes, pointers of each, and events that are read at once.
const OUTBOXES: usize = 64;
const POINTERS: usize = 50;
const EVENTS: usize = 1_000;

impl Store {
    /// How many events a tenant's logs of these days hold.
    pub async fn count_logged(
        &self,
        tenant: &TenantId,
        days: impl Iterator<Item = Day>,
    ) -> Result<usize, StoreError> {
        let log = |day| self.keys().events(tenant.partition(), tenant.as_str(), day);
        let counts = days.map(|day| command("XLEN", log(day), NO_ARGS));
        let counts = self.read_each::<usize>(OnFailure::Fail, counts).await?;
        // A key of another type holds none.
        Ok(counts.into_iter().flatten().sum())
    }

    /// The next events behind places of outboxes, which may be of other times than the window; and the places behind which there
    /// may be more.
    ///
    /// # Errors
    /// [`StoreError`] where a node does not answer: nothing may be missing.
    pub async fn events_beyond(
        &self,
        places: &[(Partition, Option<EntryId>)],
        window: Window,
    ) -> Result<(Vec<(Row, Record)>, Places), StoreError> {
        let is_apart = |day: Day| {
            window.from_ms.is_some_and(|from| day < Day::of_ms(from))
                || window.to_ms.is_some_and(|to| day > Day::of_ms(to))
        };
        let (mut targets, mut further) = (Vec::new(), Vec::new());
        for some in places.chunks(OUTBOXES) {
            let found = self.read_outboxes(some, POINTERS).await?;
            for (place, beyond) in some.iter().zip(found) {
                let pointers = match beyond {
                    Some(beyond) => beyond.pointers,
                    // Alone, one that is out of reach is an error.
                    None => self
                        .read_outboxes(&[*place], POINTERS)
                        .await?
                        .remove(0)
                        .map_or(Vec::new(), |b| b.pointers),
                };
                if pointers.len() == POINTERS {
                    further.push((place.0, pointers.last().map(|pointer| pointer.entry)));
                }
                let pointed = pointers.into_iter().filter_map(|pointer| pointer.target);
                let pointed = pointed.filter(|target| !is_apart(target.day));
                targets.extend(pointed.map(|target| (place.0, target)));
            }
        }
        let (mut events, mut rest) = (Vec::new(), targets.as_slice());
        while !rest.is_empty() {
            // One at least, and no more events at once than a reply should have.
            let mut count = 0;
            let fits = |(_, target): &&(Partition, EventRange)| {
                count += target.count;
                count <= EVENTS
            };
            let fitting = rest.iter().take_while(fits).count().max(1);
            let (some, others) = rest.split_at(fitting);
            rest = others;
            let wanted: Vec<_> = some.iter().map(|(p, target)| (*p, target)).collect();
            let found = self.read_targets(&wanted).await?;
            for (pointed, facts) in wanted.into_iter().zip(found) {
                let facts = match facts {
                    Some(facts) => facts,
                    None => {
                        let alone = self.read_targets(&[pointed]).await?;
                        alone.into_iter().next().flatten().unwrap_or_default()
                    }
                };
                let (partition, target) = pointed;
                let row = |entry, facts: &Record| Row {
                    partition,
                    entry,
                    tenant: target.tenant.clone(),
                    kind: facts.get("type").map(str::to_owned),
                };
                let rows = facts
                    .into_iter()
                    .map(|(entry, facts)| (row(entry, &facts), facts));
                events.extend(rows);
            }
        }
        Ok((events, further))
    }
}
