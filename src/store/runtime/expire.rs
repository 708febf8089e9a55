//! `expire.lua`: ends reservations whose grace has passed.

use crate::domain::ids::{Partition, TenantId};
use crate::driver::node::Lane;
use crate::store::dispatcher::poll::Due;
use crate::store::signature::{Refused, signature};
use crate::store::{Store, StoreError};

signature! {
    /// Ends up to a number of a tenant's reservations whose grace period is over; their holds return to the ledgers. Whoever
    /// calls and however often: each reservation expires once, because its status and its due time are read here.
    ///
    /// A record that is corrupt, or whose ledger is, leaves the index for the quarantine; its ledgers are not touched.
    EXPIRE: Expire -> ExpireReply = "dispatcher/expire", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read lease();
        write tenant_key: tenant(tenant), due(tenant), due_tenants(), event_log: events(tenant, day), outbox(), days(),
            quarantine();
    }
    builds { write reservation, budget }
    args {
        day,
        tenant: &'a str,
        /// Reservations at most.
        rows: i64,
        reservation_prefix = reservation_prefix(),
        budget_prefix = budget_prefix(tenant),
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Only what was due by then; '' for now.
        before_ms: Option<i64>,
        /// Of the caller's lease, if it has one.
        fencing_token: Option<i64>,
    }
    replies {
        clock, fenced,
        expired: Expired { now_ms: i64, count: i64, more: bool, next_due_ms: Option<i64>, quarantined: Vec<String> },
    }
    writes "On expired: the reservations, their due times, the ledgers, events, the quarantine."
}

/// Reservations that one call ends at most.
pub const PAGE_ROWS: i64 = 100;

/// What one call did.
#[derive(Debug)]
pub enum Expired {
    /// It ended some, or found none.
    Page {
        /// How many.
        count: i64,
        /// Whether more are due.
        more: bool,
        /// When the tenant's next one is due, in milliseconds.
        next_due_ms: Option<i64>,
        /// Corrupt records that were put into quarantine.
        quarantined: Vec<String>,
    },
    /// The caller's lease is over.
    Fenced,
}

impl Store {
    /// The tenants of each partition with the earliest due reservations, at most `rows` of each partition.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn poll_due(
        &self,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let key = |partition: &Partition| self.keys().due_tenants(*partition);
        self.poll(partitions.iter().map(key), rows).await
    }

    /// Runs `expire.lua` once for a tenant.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn expire(
        &self,
        lane: Lane,
        tenant: &TenantId,
        cause: &str,
        before_ms: Option<i64>,
        fencing_token: Option<i64>,
    ) -> Result<Expired, StoreError> {
        let call = Expire {
            partition: tenant.partition(),
            tenant: tenant.as_str(),
            rows: PAGE_ROWS,
            context: cause,
            before_ms,
            fencing_token,
        };
        match self.run_on(lane, &call).await? {
            Ok(ExpireReply::Expired {
                count,
                more,
                next_due_ms,
                quarantined,
                ..
            }) => Ok(Expired::Page {
                count,
                more,
                next_due_ms,
                quarantined,
            }),
            Err(Refused::Fenced) => Ok(Expired::Fenced),
            Err(refused) => Err(refused.unexpected(&EXPIRE)),
        }
    }
}

/// Ends the holds of one tenant that were due before `before_ms`, page by page, until none is left.
///
/// For an operation that is short of funds while dead holds stand: it needs no lease, the script makes it right. It is part
/// of a request, so it waits behind no list and no worker.
///
/// # Errors
/// [`StoreError`].
pub async fn expire_tenant(
    store: &Store,
    tenant: &TenantId,
    cause: &str,
    before_ms: i64,
) -> Result<i64, StoreError> {
    let mut expired = 0;
    loop {
        let page = store.expire(Lane::Request, tenant, cause, Some(before_ms), None);
        match page.await? {
            Expired::Page { count, more, .. } => {
                expired += count;
                if !more {
                    return Ok(expired);
                }
            }
            Expired::Fenced => {}
        }
    }
}
