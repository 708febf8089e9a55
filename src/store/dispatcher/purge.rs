//! `purge.lua`: deletes the old records of one day of a tenant.

use super::lease::Lease;
use crate::domain::words::words;
use crate::store::signature::signature;
use crate::store::{Day, Lane, Store, StoreError, unless_fenced};

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
    names { tenant: &'a str, of_day: Day, reservations: bool, usage_events: bool }
    keys of partition of fencing_token {
        read lease(), unsigned(), unsignable();
        write index: reservations(tenant, of_day) when reservations, index: usage_events(tenant, of_day) when usage_events;
    }
    builds { write reservation, usage_event, budget }
    args {
        /// Of reservations or of usage events.
        record_prefix: String,
        budget_prefix = budget_prefix(tenant),
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
    writes "On purged: the records and their rows go; the bases of the ledgers."
}

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
    /// Which records of a day.
    Records {
        /// Reservations.
        Reservations = "reservations",
        /// Usage events.
        UsageEvents = "usage_events",
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
                Records::Reservations => keys.reservation_prefix(),
                Records::UsageEvents => keys.usage_event_prefix(),
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
