//! Deletes the idempotency entries of fundings and bulk actions whose time is over: a part of retention. They have no TTL, because
//! a jump of the clock would end it, and a retry would move money again.

use super::due::DueRows;
use crate::store::dispatcher::drop_idempotency::{DropIdempotency, DropIdempotencyReply};
use crate::store::{Keys, Lane, Lease, Store, StoreError};

/// Entries deleted in each partition in one pass.
const ROWS: usize = 100;

/// What one pass deleted.
pub(super) struct Dropped {
    /// Entries.
    pub count: i64,
    /// Whether more may be due.
    pub more: bool,
}

/// Deletes entries that are due at `now_ms`, a time that is not in doubt.
///
/// # Errors
/// [`StoreError`].
pub(super) async fn drop_due(
    store: &Store,
    leases: &[Lease],
    now_ms: i64,
    lost: &mut impl FnMut(Lease),
) -> Result<Dropped, StoreError> {
    let due = DueRows::poll(store, Keys::idempotency_due, leases, now_ms, ROWS).await?;
    let (mut count, more) = (0, due.more());
    for (lease, members) in due.by_lease {
        if members.is_empty() {
            continue;
        }
        let call = DropIdempotency {
            entries: members.into_iter().map(|due| due.member).collect(),
            due_until_ms: now_ms,
            fencing_token: &lease,
        };
        match store.run_leased(Lane::Background, &call).await? {
            Some(DropIdempotencyReply::Dropped { count: dropped }) => count += dropped,
            None => lost(lease),
        }
    }
    Ok(Dropped { count, more })
}
