//! `expire.lua`: ends reservations whose grace has passed.

use crate::domain::ids::TenantId;
use crate::driver::node::Lane;
use crate::store::signature::signature;
use crate::store::{Lease, Store, StoreError, unless_fenced};

signature! {
    /// Ends up to a number of a tenant's reservations whose grace period is over; their holds return to the ledgers.
    /// However often it is called, each reservation expires once, because its status and its due time are read here.
    ///
    /// A record that is corrupt, or whose ledger is, leaves the index for the quarantine; its ledgers are not touched.
    EXPIRE: Expire -> ExpireReply = "dispatcher/expire", flags "allow-oom";
    keys of partition of tenant {
        read lease();
        write tenant_key: tenant(tenant), due(tenant), other_graces(tenant), due_tenants(), event_log: events(tenant, day), outbox(), days(),
            quarantine(), traffic(tenant), traffic_due();
    }
    builds { write reservation(), budget(tenant) }
    args {
        day,
        tenant: &'a TenantId,
        /// Reservations at most.
        rows: i64,
        context: &'a str,
        /// Only what was due by then; '' for now.
        before_ms: Option<i64>,
        /// Of the caller's lease, if it has one.
        fencing_token: Option<Lease>,
    }
    replies {
        clock, fenced,
        expired: Expired { now_ms: i64, count: i64, more: bool, next_due_ms: Option<i64>, quarantined: Vec<String> },
    }
    writes "On expired: the reservations, their due times and expiries, the ledgers, events, the quarantine,
        the counts of what ended."
}

/// Reservations that one call ends at most.
pub const PAGE_ROWS: i64 = 50;

impl Store {
    /// Runs `expire.lua` once for a tenant; `None` where another dispatcher holds the lease by now.
    pub async fn expire(
        &self,
        lane: Lane,
        tenant: &TenantId,
        cause: &str,
        before_ms: Option<i64>,
        fencing_token: Option<Lease>,
    ) -> Result<Option<ExpireReply>, StoreError> {
        let call = Expire {
            tenant,
            rows: PAGE_ROWS,
            context: cause,
            before_ms,
            fencing_token,
        };
        unless_fenced(self.run(lane, &call).await)
    }
}

/// Ends the holds of one tenant that were due before `before_ms`, page by page, until none is left.
///
/// Called for a request that lacks funds while its tenant has dead holds. It needs no lease, since the script checks each
/// hold itself. As a part of the request, it waits for no list and no worker.
pub async fn expire_tenant(
    store: &Store,
    tenant: &TenantId,
    cause: &str,
    before_ms: i64,
) -> Result<i64, StoreError> {
    let (mut expired, mut more) = (0, true);
    while more {
        let page = store.expire(Lane::Request, tenant, cause, Some(before_ms), None);
        let Some(ExpireReply::Expired {
            count, more: rest, ..
        }) = page.await?
        else {
            break;
        };
        (expired, more) = (expired + count, rest);
    }
    Ok(expired)
}
