//! `purge.lua`, `retire.lua` and `drop_idempotency.lua`: delete old records, logs and idempotency entries.

use super::lease::Lease;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::words::words;
use crate::store::dispatcher::fan_out::CursorsOfOutbox;
use crate::store::dispatcher::views::View;
use crate::store::records::{NO_ARGS, command};
use crate::store::signature::signature;
use crate::store::{Day, Lane, OnFailure, Store, StoreError, unless_fenced};

signature! {
    /// Removes up to a number of a tenant's ended records of one day whose retention has passed. What a record had charged moves
    /// into the base of its ledgers in the same step, so that the ledgers can still be recomputed.
    ///
    /// Records of which evidence is to be signed yet are kept, also where nobody can sign it, or the clock was set back meanwhile.
    ///
    /// Only rows created before ended_before_ms are examined, from behind the last one that earlier calls kept. If fewer than
    /// asked for were examined, none is left. first_ended_ms: the earliest end among the ended rows kept. next_created_ms: of
    /// the first row that was not examined.
    PURGE: Purge -> PurgeReply = "dispatcher/purge", flags "allow-oom";
    names { of_day: Day, reservations: bool, usage_events: bool }
    keys of partition of fencing_token {
        read lease(), unsigned(), unsignable();
        write purged(), index: reservations(tenant, of_day) when reservations, index: usage_events(tenant, of_day) when usage_events;
    }
    builds { write reservation, usage_event, budget(tenant) }
    args {
        tenant: &'a str,
        /// Of reservations or of usage events.
        record_prefix: String,
        ended_before_ms: i64,
        rows: i64,
        fencing_token: Lease,
        /// Of the last row of the index that earlier calls kept.
        after_created_ms: Option<i64>,
        after_id: Option<&'a str>,
    }
    replies {
        fenced,
        purged: Purged {
            examined: i64, removed: i64, first_ended_ms: Option<i64>, next_created_ms: Option<i64>,
            last_created_ms: Option<i64>, last_id: Option<String>,
        },
    }
    writes "On purged: the records and their rows go; the bases of the ledgers, and the time of the latest charge or refund that went."
}

/// Rows of the view that one command looks at.
const SCANNED_ROWS: usize = 200;

/// Records that one call of `purge.lua` examines at most: well below a millisecond of Redis's time.
pub const PAGE_ROWS: i64 = 50;

/// How far retention has come through a day's records of a kind.
#[derive(Debug, Default)]
pub struct Walk {
    /// Creation time and id of the last one that stays.
    pub last_kept: Option<(i64, String)>,
    /// The earliest end among those that stay because they ended too recently.
    pub first_ended_ms: Option<i64>,
}

words! {
    /// The kind of records of a day.
    Records: "snake_case" {
        /// Reservations.
        Reservations,
        /// Usage events.
        UsageEvents,
    }
}

impl Store {
    /// Runs `purge.lua` once over a day's records that ended before a time, from where `walk` is, which moves on. `None` where another dispatcher holds the lease by now.
    pub async fn purge(
        &self,
        lease: Lease,
        tenant: &str,
        day: Day,
        records: Records,
        ended_before_ms: i64,
        walk: &mut Walk,
    ) -> Result<Option<PurgeReply>, StoreError> {
        let keys = self.keys().of(lease.partition);
        let call = Purge {
            tenant,
            of_day: day,
            reservations: records == Records::Reservations,
            usage_events: records == Records::UsageEvents,
            record_prefix: match records {
                Records::Reservations => keys.reservation(""),
                Records::UsageEvents => keys.usage_event(""),
            },
            ended_before_ms,
            rows: PAGE_ROWS,
            fencing_token: lease,
            after_created_ms: walk.last_kept.as_ref().map(|(created_ms, _)| *created_ms),
            after_id: walk.last_kept.as_ref().map(|(_, id)| id.as_str()),
        };
        let reply = unless_fenced(self.run(Lane::Background, &call).await)?;
        if let Some(PurgeReply::Purged {
            first_ended_ms,
            last_created_ms,
            last_id,
            ..
        }) = &reply
        {
            let ended_ms = [walk.first_ended_ms, *first_ended_ms].into_iter().flatten();
            walk.first_ended_ms = ended_ms.min();
            walk.last_kept = last_created_ms
                .zip(last_id.clone())
                .or(walk.last_kept.take());
        }
        Ok(reply)
    }
}

impl Store {
    /// Removes the rows of a log's day from the view of all audit logs, which keeps its days longer than that log.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable. What is left goes with the day of the view.
    pub async fn drop_audit_rows(&self, owner: &str, day: Day) -> Result<(), StoreError> {
        let (keys, view, pattern) = (self.keys(), View::Audit.as_str(), format!("* {owner}"));
        for key in [keys.view_rows(view, day), keys.view_ids(view, day)] {
            let mut cursor = Some(0_u64);
            while let Some(at) = cursor {
                let page = (at, "MATCH", &pattern, "COUNT", SCANNED_ROWS);
                let page = self.read(command("ZSCAN", key.clone(), page));
                let (next, found): (u64, Vec<String>) = page.await?;
                // A row and its score.
                let rows: Vec<_> = found.into_iter().step_by(2).collect();
                if !rows.is_empty() {
                    self.write(command("ZREM", key.clone(), rows)).await?;
                }
                cursor = Some(next).filter(|next| *next > 0);
            }
        }
        let of_owner = keys.view_rows_of_kind(view, owner, day);
        self.write(command("UNLINK", of_owner, NO_ARGS)).await
    }
}

signature! {
    /// Ends a pass of retention over one day of a tenant. Logs whose time is over go; a day of which nothing is left leaves the
    /// registry; else the registry gets the time of the next look.
    ///
    /// events and audit: entries removed. drop_audit 1: if the log is the oldest of its chain; 2: also if older entries are
    /// missing, for they will not come any more. A log that is not sealed stays in any case, and is looked at again in an hour. The
    /// chain keeps number and hash of the last entry that went, from which on it can be checked, and how many went in all.
    RETIRE: Retire -> RetireReply = "dispatcher/retire", flags "allow-oom";
    names { tenant: &'a str, of_day: Day }
    keys of partition of fencing_token {
        read lease(), reservations(tenant, of_day), usage_events(tenant, of_day), usage(tenant, of_day);
        write event_log: events(tenant, of_day), audit_log: audit(tenant, of_day), seals(tenant, of_day), chain(tenant),
            days();
    }
    args {
        /// Of days.
        member: String,
        of_day_start_ms: i64,
        fencing_token: Lease,
        drop_events: bool,
        /// 0, 1 or 2.
        drop_audit: i64,
        /// When to look again while there are reservations.
        reservations_again_ms: i64,
        usage_events_again_ms: i64,
        usage_again_ms: i64,
        events_again_ms: i64,
        audit_again_ms: i64,
    }
    replies {
        fenced, retired: Retired { events: i64, audit: i64 }, kept: Kept { events: i64, audit: i64, next_ms: i64 },
    }
    writes "The logs that go, the chain, the registry."
}

/// Entries that one trim of an outbox removes at most, in whole blocks of the stream.
pub const TRIM_ENTRIES: i64 = 2_000;

impl Store {
    /// Removes what is older than a time from the partitions' outboxes, at most about [`TRIM_ENTRIES`] of each; answers
    /// how many entries went from those that were trimmed. Whole blocks of the streams only, which is what makes it cheap. What the view of
    /// events has not followed yet stays, however old; if that is unknown, everything stays.
    pub async fn trim_outboxes(
        &self,
        partitions: &[Partition],
        before_ms: i64,
    ) -> Result<Vec<i64>, StoreError> {
        let read = async {
            tokio::try_join!(
                self.view_cursors(partitions),
                self.fan_out_cursors(partitions)
            )
        };
        let (viewed, fanned) = match read.await {
            Err(StoreError::Unavailable(_)) => return Ok(Vec::new()),
            cursors => cursors?,
        };
        // What all have followed, the view and both audiences of webhooks.
        let all = |(viewed, [own, system]): (Option<EntryId>, CursorsOfOutbox)| {
            Some(viewed?.min(own??.done()).min(system??.done()))
        };
        let cursors = viewed.into_iter().zip(fanned).map(all);
        let trim = |(partition, cursor): (&Partition, Option<EntryId>)| {
            let key = self.keys().outbox(*partition);
            let before = EntryId {
                ms: before_ms.max(0).unsigned_abs(),
                sequence: 0,
            };
            let before = cursor?.min(before).to_string();
            let args = ("MINID", "~", before, "LIMIT", TRIM_ENTRIES);
            Some(command("XTRIM", key, args))
        };
        let followed = partitions.iter().zip(cursors);
        let counts = self.read_each(OnFailure::Skip, followed.filter_map(trim));
        let counts = counts.await?.into_iter();
        Ok(counts.map(Result::unwrap_or_default).collect())
    }
}

signature! {
    /// Moves up to a number of combinations of a day's usage into the month, and counts the step there, so that a reader notices it.
    /// The hashes beside that of the day go before it.
    MERGE_USAGE: MergeUsage -> MergeUsageReply = "dispatcher/merge_usage", flags "allow-oom";
    names { tenant: &'a str, of_day: Day, month: &'a str }
    keys of partition of fencing_token {
        read lease();
        write usage(tenant, of_day), usage_of_month(tenant, month);
    }
    builds { write more_usage, more_usage_of_month }
    args {
        fencing_token: Lease,
        /// The number of a hash beside that of the day; empty for that of the day.
        number: Option<u32>,
        /// The day, as keys have it.
        merged_until: String,
        combinations: i64,
        /// How many hashes there may be beside one.
        hashes: i64,
        /// When the month goes.
        expires_ms: i64,
    }
    replies { fenced, merged: Merged { left: i64 } }
    writes "The combinations go from the day to the month."
}

/// Combinations that one call of `merge_usage.lua` moves at most: below a millisecond of Redis's time.
pub const MERGED_COMBINATIONS: i64 = 100;

signature! {
    /// Deletes entries that keep a retry from moving money again, as far as they are due at a time.
    DROP_IDEMPOTENCY: DropIdempotency -> DropIdempotencyReply = "dispatcher/drop_idempotency", flags "allow-oom";
    keys of partition of fencing_token {
        read lease();
        write idempotency_due();
    }
    each { write entries: idempotency | bulk | bulk_rows }
    args { due_until_ms: i64, fencing_token: &'a Lease }
    replies { fenced, dropped: Dropped { count: i64 } }
    writes "On dropped: the entries that are due, and their places in the index."
}
