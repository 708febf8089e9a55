//! Merges the usage of an old day into its month, in short steps.

use crate::store::dispatcher::retention::{MERGED_COMBINATIONS, MergeUsage, MergeUsageReply};
use crate::store::{Day, Lane, Lease, Store, StoreError, USAGE_HASHES, unless_fenced};

/// Steps that one pass makes for a day; the next pass resumes there.
const STEPS: usize = 50;

/// Merges the usage of a tenant's day; its month is kept for some months after its end. Returns whether all of it is merged; `None`
/// where another dispatcher holds the lease.
pub(super) async fn merge(
    store: &Store,
    lease: Lease,
    (tenant, day, months): (&str, Day, u32),
) -> Result<Option<bool>, StoreError> {
    let month = day.month(0).to_string();
    let expires_ms = day.month(1 + i64::from(months)).start_ms();
    let mut hashes = store.usage_hashes(lease.partition, tenant, day).await?;
    for _ in 0..STEPS {
        // That of the day comes last: while it has its combinations, readers look at the others.
        let Some(number) = hashes.last().copied() else {
            return Ok(Some(true));
        };
        let call = MergeUsage {
            tenant,
            of_day: day,
            month: &month[..6],
            fencing_token: lease,
            number,
            merged_until: day.to_string(),
            combinations: MERGED_COMBINATIONS,
            hashes: i64::from(USAGE_HASHES),
            expires_ms,
        };
        match unless_fenced(store.run(Lane::Background, &call).await)? {
            Some(MergeUsageReply::Merged { left: 0 }) => drop(hashes.pop()),
            Some(MergeUsageReply::Merged { .. }) => {}
            None => return Ok(None),
        }
    }
    Ok(Some(false))
}
