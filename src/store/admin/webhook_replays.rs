//! `begin_replay.lua`, `queue_replay.lua`, `end_replay.lua`, and the reading of event logs that a replay chooses from.

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::domain::webhook::{Owner, SubscriptionId};
use crate::driver::clock::Day;
use crate::driver::script::Counted;
use crate::store::dispatcher::outbox::entries;
use crate::store::records::{command, read_or_default};
use crate::store::signature::signature;
use crate::store::{Pair, Store, StoreError};

signature! {
    /// Claims the right to choose events for a replay of a subscription. The claim lapses, should the replica die.
    BEGIN_REPLAY: BeginReplay -> BeginReplayReply = "admin/webhooks/begin_replay";
    names { subscription_id: &'a SubscriptionId }
    keys of partition of subscription_id { write replay_lock(subscription_id); }
    args { token: &'a str, claim_ms: i64 }
    replies { locked, begun: Begun }
    writes "On begun: the lock."
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
    /// Keeps the events to be delivered again, in their order, for the dispatcher, and ends the claim.
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
        keep_ms: i64,
        context: &'a str,
        event_ids: Counted<&'a [String]>,
        audit: &'a [Pair],
    }
    replies { clock, webhook_not_found, tenant_unreadable, tenant_closed, lost: Lost, queued: Queued }
    writes "On queued: where there are events, the replay and its place in the queue; the audit entry. What has waited longer \
than keep_ms leaves the queue: a delivery that old would fail unsent."
}

/// Logs that are read at once.
const LOGS: usize = 64;

/// The log of a day of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLog {
    /// Where it lies.
    pub partition: Partition,
    /// Whose it is; perhaps no tenant's.
    pub tenant: String,
    /// Of which day.
    pub day: Day,
}

/// An entry of an event log.
#[derive(Debug)]
pub struct LogEntry {
    /// Place of the log among those that were asked for.
    pub log: usize,
    /// Id of the entry in its stream.
    pub entry: EntryId,
    /// What the script appended.
    pub facts: Record,
}

impl Store {
    /// The logs of days that retention knows of, in these partitions: of one tenant or of all.
    pub async fn event_logs(
        &self,
        partitions: &[Partition],
        tenant: Option<&str>,
        days: (Option<Day>, Option<Day>),
    ) -> Result<Vec<EventLog>, StoreError> {
        let all = |p: &Partition| command("ZRANGE", self.keys().days(*p), (0, -1));
        let commands: Vec<_> = partitions.iter().map(all).collect();
        let replies = self.query_all(&commands).await?;
        let mut logs = Vec::new();
        for (partition, reply) in partitions.iter().zip(replies) {
            let members: Vec<String> = read_or_default(reply);
            for member in members {
                let Some((name, day)) = member.rsplit_once(':') else {
                    continue;
                };
                let Some(day) = Day::parse(day) else { continue };
                let wanted = tenant.is_none_or(|tenant| tenant == name)
                    && days.0.is_none_or(|first| first <= day)
                    && days.1.is_none_or(|last| day <= last);
                if wanted {
                    logs.push(EventLog {
                        partition: *partition,
                        tenant: name.to_owned(),
                        day,
                    });
                }
            }
        }
        logs.sort_by_key(|log| log.day);
        Ok(logs)
    }

    /// The entries of these logs, up to `most` and one more.
    pub async fn event_entries(
        &self,
        logs: &[EventLog],
        (from_ms, to_ms): (Option<i64>, Option<i64>),
        most: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let bound =
            |ms: Option<i64>, open: &str| ms.map_or(open.to_owned(), |ms| ms.max(0).to_string());
        // An entry's id is at most a little later than the time of its event.
        let (from, to) = (
            bound(from_ms, "-"),
            bound(to_ms.map(|ms| ms.saturating_add(5_000)), "+"),
        );
        let mut all: Vec<LogEntry> = Vec::new();
        for (chunk, some) in logs.chunks(LOGS).enumerate() {
            let left = (most + 1).saturating_sub(all.len());
            if left == 0 {
                break;
            }
            let range = |log: &EventLog| {
                let key = self.keys().events(log.partition, &log.tenant, log.day);
                command("XRANGE", key, (&from, &to, "COUNT", left))
            };
            let commands: Vec<_> = some.iter().map(range).collect();
            for (place, reply) in self.query_all(&commands).await?.into_iter().enumerate() {
                let log = chunk * LOGS + place;
                let found = entries(reply).into_iter();
                all.extend(found.map(|(entry, facts)| LogEntry { log, entry, facts }));
            }
        }
        Ok(all)
    }
}
