//! `retire.lua`: deletes the old logs of one day of a tenant; and the trimming of the outboxes.

use super::lease::Lease;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::fan_out::CursorsOfOutbox;
use crate::store::records::{command, read_or_default};
use crate::store::signature::signature;
use crate::store::{Day, OnFailure, Store, StoreError};

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
        read lease(), reservations(tenant, of_day), usage_events(tenant, of_day);
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
    /// events has not followed yet stays, however old; where nobody can tell what that is, everything stays.
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
        let commands: Vec<_> = followed.filter_map(trim).collect();
        let replies = self.send_each(&commands, OnFailure::Skip).await?;
        let counts = replies.into_iter();
        let counts = counts.map(|reply| reply.map_or(0, read_or_default));
        Ok(counts.collect())
    }
}
