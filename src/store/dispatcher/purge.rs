//! `purge.lua` and `retire.lua`: what retention does to one day of a tenant; and the trimming of the outboxes.

use redis::Value;

use super::lease::Lease;
use super::poll::Due;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::signature::{Refused, signature};
use crate::store::{Day, Lane, Store, StoreError};

signature! {
    /// Removes up to a number of a tenant's ended records of one day whose retention has passed. What a record had charged moves
    /// into the base of its ledgers in the same step, so that the ledgers can still be recomputed.
    ///
    /// Only rows created before ended_before_ms are examined, for nothing ends before it begins; fewer than asked for: there are
    /// no more of them. first_ended_ms: the earliest end among the ended rows kept. next_created_ms: of the first row that was
    /// not examined.
    PURGE: Purge -> PurgeReply = "dispatcher/purge", flags "allow-oom";
    names { partition: Partition, tenant: &'a str, of_day: Day, reservations: bool, usage_events: bool }
    keys of partition {
        read lease();
        write index: reservations(tenant, of_day) when reservations, index: usage_events(tenant, of_day) when usage_events;
    }
    builds { write reservation, usage_event, budget }
    args {
        /// Of reservations or of usage events.
        record_prefix: String,
        budget_prefix = budget_prefix(tenant),
        ended_before_ms: i64,
        /// At most.
        rows: i64,
        fencing_token: i64,
        /// Rows of the index that earlier calls kept.
        kept_before: i64,
    }
    replies {
        fenced,
        purged: Purged {
            examined: i64, removed: i64, kept: i64, first_ended_ms: Option<i64>, next_created_ms: Option<i64>,
        },
    }
    writes "On purged: the records and their rows go; the bases of the ledgers."
}

signature! {
    /// Ends a pass of retention over one day of a tenant. Logs whose time is over go; a day of which nothing is left leaves the
    /// registry; else the registry gets the time of the next look.
    ///
    /// events and audit: entries removed. drop_audit 1: if the log is the oldest of its chain; 2: also if older entries are
    /// missing, for they will not come any more. A log that is not sealed stays in any case, and is looked at again in an hour. The
    /// chain keeps number and hash of the last entry that went, from which on it can be checked, and how many went in all.
    RETIRE: Retire -> RetireReply = "dispatcher/retire", flags "allow-oom";
    names { partition: Partition, tenant: &'a str, of_day: Day }
    keys of partition {
        read lease(), reservations(tenant, of_day), usage_events(tenant, of_day);
        write event_log: events(tenant, of_day), audit_log: audit(tenant, of_day), seals(tenant, of_day), chain(tenant),
            days();
    }
    args {
        /// Of days.
        member: String,
        of_day_start_ms: i64,
        fencing_token: i64,
        drop_events: bool,
        /// 0, 1 or 2.
        drop_audit: i64,
        /// When to look again while there are reservations.
        reservations_again_ms: i64,
        usage_events_again_ms: i64,
        events_again_ms: i64,
        audit_again_ms: i64,
    }
    replies {
        fenced, retired: Retired { events: i64, audit: i64 }, kept: Kept { events: i64, audit: i64, next_ms: i64 },
    }
    writes "The logs that go, the chain, the registry."
}

/// Records that one call of `purge.lua` examines at most: well below a millisecond of Redis's time.
pub const PAGE_ROWS: i64 = 50;

/// Entries that one trim of an outbox removes at most, in whole blocks of the stream.
pub const TRIM_ENTRIES: i64 = 2_000;

/// Which records of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// Reservations.
    Reservations,
    /// Usage events.
    UsageEvents,
}

impl Records {
    /// The label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reservations => "reservations",
            Self::UsageEvents => "usage_events",
        }
    }
}

/// What one page of a purge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purged {
    /// Some rows were examined.
    Page {
        /// How many; fewer than [`PAGE_ROWS`] when there are no more.
        examined: i64,
        /// How many are gone.
        removed: i64,
        /// How many stay: not ended, ended too recently, or corrupt.
        kept: i64,
        /// The earliest end among the ended ones that stay, in milliseconds.
        first_ended_ms: Option<i64>,
        /// When the first row that was not examined was created, in milliseconds.
        next_created_ms: Option<i64>,
    },
    /// The caller's lease is over.
    Fenced,
}

/// Whether an audit log goes that is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropAudit {
    /// It stays.
    No,
    /// It goes if it is the oldest of its chain.
    Oldest,
    /// It goes, also where older entries are missing.
    Any,
}

/// What to delete of the logs of a day, and when the day is due again while something of it is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayPlan {
    /// Whether the event log's time is over.
    pub drop_events: bool,
    /// Whether the audit log's time is over.
    pub drop_audit: DropAudit,
    /// When reservations, usage events, events and audit entries are due again, in milliseconds.
    pub next_ms: [i64; 4],
}

/// The result of retiring a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retired {
    /// So many entries of the event log and of the audit log went.
    Done {
        /// Entries of the event log.
        events: i64,
        /// Entries of the audit log.
        audit: i64,
        /// Whether nothing of the day is left.
        gone: bool,
    },
    /// The caller's lease is over.
    Fenced,
}

impl Store {
    /// The days of each partition that retention looks at next (`tenant:yyyymmdd`), at most `rows` of each partition.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn poll_days(
        &self,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let key = |partition: &Partition| self.keys().days(*partition);
        self.poll(partitions.iter().map(key), rows).await
    }

    /// Runs `purge.lua` once over a day's records that ended before a time; `kept_before` rows of it were kept by earlier
    /// calls of the same walk.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn purge(
        &self,
        lease: Lease,
        tenant: &str,
        day: Day,
        records: Records,
        ended_before_ms: i64,
        kept_before: i64,
    ) -> Result<Purged, StoreError> {
        let keys = self.keys().of(lease.partition);
        let call = Purge {
            partition: lease.partition,
            tenant,
            of_day: day,
            reservations: records == Records::Reservations,
            usage_events: records == Records::UsageEvents,
            record_prefix: match records {
                Records::Reservations => keys.reservation_prefix(),
                Records::UsageEvents => keys.usage_event_prefix(),
            },
            ended_before_ms,
            rows: PAGE_ROWS,
            fencing_token: lease.token,
            kept_before,
        };
        match self.run_on(Lane::Background, &call).await? {
            Ok(PurgeReply::Purged {
                examined,
                removed,
                kept,
                first_ended_ms,
                next_created_ms,
            }) => Ok(Purged::Page {
                examined,
                removed,
                kept,
                first_ended_ms,
                next_created_ms,
            }),
            Err(Refused::Fenced) => Ok(Purged::Fenced),
            Err(refused) => Err(refused.unexpected(&PURGE)),
        }
    }

    /// Runs `retire.lua`: deletes the logs of one day of a tenant by plan.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn retire(
        &self,
        lease: Lease,
        tenant: &str,
        day: Day,
        plan: DayPlan,
    ) -> Result<Retired, StoreError> {
        let [
            reservations_again_ms,
            usage_events_again_ms,
            events_again_ms,
            audit_again_ms,
        ] = plan.next_ms;
        let call = Retire {
            partition: lease.partition,
            tenant,
            of_day: day,
            member: format!("{tenant}:{day}"),
            of_day_start_ms: day.start_ms(),
            fencing_token: lease.token,
            drop_events: plan.drop_events,
            drop_audit: plan.drop_audit as i64,
            reservations_again_ms,
            usage_events_again_ms,
            events_again_ms,
            audit_again_ms,
        };
        let (events, audit, gone) = match self.run_on(Lane::Background, &call).await? {
            Ok(RetireReply::Retired { events, audit }) => (events, audit, true),
            Ok(RetireReply::Kept { events, audit, .. }) => (events, audit, false),
            Err(Refused::Fenced) => return Ok(Retired::Fenced),
            Err(refused) => return Err(refused.unexpected(&RETIRE)),
        };
        Ok(Retired::Done {
            events,
            audit,
            gone,
        })
    }

    /// Notes in a partition's registry that `member` is looked at again at a time, if it is registered at all.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn postpone_day(
        &self,
        partition: Partition,
        member: &str,
        until_ms: i64,
    ) -> Result<(), StoreError> {
        let key = self.keys().days(partition);
        let mut command = redis::cmd("ZADD");
        command.arg(&key).arg("XX").arg(until_ms).arg(member);
        self.query(&key, &command).await.map(drop)
    }

    /// Removes what is older than a time from the partitions' outboxes, at most about [`TRIM_ENTRIES`] of each; answers
    /// how many entries went from those that were trimmed. Whole blocks of the streams only, which is what makes it cheap. What the view of
    /// events has not followed yet stays, however old; where nobody can tell what that is, everything stays.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn trim_outboxes(
        &self,
        partitions: &[Partition],
        before_ms: i64,
    ) -> Result<Vec<i64>, StoreError> {
        let cursors = match self.view_cursors(partitions).await {
            Err(StoreError::Unavailable(_)) => return Ok(Vec::new()),
            cursors => cursors?,
        };
        let command = |(partition, cursor): (&Partition, Option<EntryId>)| {
            let key = self.keys().outbox(*partition);
            let before = EntryId {
                ms: before_ms.max(0).unsigned_abs(),
                sequence: 0,
            };
            let before = cursor?.min(before);
            let mut command = redis::cmd("XTRIM");
            command
                .arg(&key)
                .arg("MINID")
                .arg("~")
                .arg(before.to_string());
            command.arg("LIMIT").arg(TRIM_ENTRIES);
            Some((key, command))
        };
        let followed = partitions.iter().zip(cursors);
        let commands: Vec<_> = followed.filter_map(command).collect();
        let replies = self.query_reachable(&commands).await?;
        let removed = |reply: Value| redis::from_redis_value(reply).unwrap_or(0);
        let counts = replies.into_iter().map(|reply| reply.map_or(0, removed));
        Ok(counts.collect())
    }
}
