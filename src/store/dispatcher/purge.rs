//! `purge.lua` and `retire.lua`: what retention does to one day of a tenant; and the trimming of the outboxes.

use redis::Value;

use super::lease::Lease;
use super::poll::Due;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::scripts::{PURGE, RETIRE};
use crate::store::{Arg, Day, Lane, Reply, Store, StoreError};

/// Records that one call of `purge.lua` examines at most: well below a millisecond of Redis's time.
pub const PAGE_ROWS: i64 = 50;

/// Entries that one trim of an outbox removes at most, in whole blocks of the stream.
pub const TRIM_ENTRIES: i64 = 2_000;

/// Which records of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// Reservations.
    Reservations,
    /// Events that were booked without a reservation.
    Posts,
}

impl Records {
    /// The label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reservations => "reservations",
            Self::Posts => "posts",
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

/// What the logs of a day have come to, and when to look at the day again while something of it is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether the event log's time is over.
    pub drop_events: bool,
    /// Whether the audit log's time is over.
    pub drop_audit: DropAudit,
    /// When to look again at reservations, posts, events and audit entries, in milliseconds.
    pub next_ms: [i64; 4],
}

/// How a look ended.
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
        let (keys, partition) = (self.keys(), lease.partition);
        let (index, prefix) = match records {
            Records::Reservations => (
                keys.reservations(partition, tenant, day),
                keys.reservation(partition, ""),
            ),
            Records::Posts => (
                keys.usage_events(partition, tenant, day),
                keys.usage_event(partition, ""),
            ),
        };
        let budget_prefix = keys.budget_prefix(partition, tenant);
        let args = [
            Arg::from(&prefix),
            Arg::from(&budget_prefix),
            Arg::from(ended_before_ms),
            Arg::from(PAGE_ROWS),
            Arg::from(lease.token),
            Arg::from(kept_before),
        ];
        let key_names = [index, keys.lease(partition)];
        let value = self
            .call_on(Lane::Background, &PURGE, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&PURGE, value)?;
        match reply.next_str()?.as_str() {
            "purged" => Ok(Purged::Page {
                examined: reply.next_i64()?,
                removed: reply.next_i64()?,
                kept: reply.next_i64()?,
                first_ended_ms: reply.next_str()?.parse().ok(),
                next_created_ms: reply.next_str()?.parse().ok(),
            }),
            "fenced" => Ok(Purged::Fenced),
            other => Err(reply.unknown(other)),
        }
    }

    /// Runs `retire.lua`: ends a look at one day of a tenant.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn retire(
        &self,
        lease: Lease,
        tenant: &str,
        day: Day,
        look: Look,
    ) -> Result<Retired, StoreError> {
        let (keys, partition, name) = (self.keys(), lease.partition, tenant);
        let key_names = [
            keys.reservations(partition, name, day),
            keys.usage_events(partition, name, day),
            keys.events(partition, name, day),
            keys.audit(partition, name, day),
            keys.seals(partition, name, day),
            keys.chain(partition, name),
            keys.days(partition),
            keys.lease(partition),
        ];
        let member = format!("{tenant}:{day}");
        let mut args = vec![
            Arg::from(&member),
            Arg::from(day.start_ms()),
            Arg::from(lease.token),
            Arg::from(look.drop_events),
            Arg::from(look.drop_audit as i64),
        ];
        args.extend(look.next_ms.map(Arg::from));
        let value = self
            .call_on(Lane::Background, &RETIRE, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&RETIRE, value)?;
        let word = reply.next_str()?;
        match word.as_str() {
            "retired" | "kept" => Ok(Retired::Done {
                events: reply.next_i64()?,
                audit: reply.next_i64()?,
                gone: word == "retired",
            }),
            "fenced" => Ok(Retired::Fenced),
            other => Err(reply.unknown(other)),
        }
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
