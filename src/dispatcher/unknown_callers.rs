//! Bounds the audit log of unknown callers: anyone can cause its entries, so beyond a number of them the oldest go.

use std::time::Duration;

use tracing::error;

use super::sealer::view_row;
use crate::domain::audit::StoredEntry;
use crate::domain::ids::Partition;
use crate::domain::tenant::UNKNOWN_CALLER;
use crate::store::dispatcher::audit_chain::Stretch;
use crate::store::dispatcher::views::View;
use crate::store::{Day, Lease, Store, StoreError};

/// Entries that are kept: 64 MiB, at 1.3 KB each with seal and rows of the view.
pub const ENTRIES_MAX: u64 = 50_000;

/// Entries that go at once. Each call appends one entry, so fewer would fill the log themselves.
const ROWS: usize = 200;

/// Calls of one pass. A flood adds 100 entries between two passes.
const CALLS: usize = 5;

/// Entries are kept at most this long, because anyone can cause them.
pub const KEPT_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Days that may have a log: those that are kept, and two for the delay of retention.
const DAYS: i64 = KEPT_MAX.as_secs() as i64 / 86_400 + 2;

/// The entry that says how many went; the script adds their number, and that of the requests that they stood for.
const ENTRY: [(&str, &str); 2] = [("operation", "audit.entries_dropped"), ("status", "200")];

/// Removes the oldest entries beyond `most`; returns how many, or `None` where another dispatcher holds the lease by now. A log
/// that is damaged stays as it is.
///
/// # Errors
/// [`StoreError::Unavailable`].
pub async fn bound(store: &Store, lease: Lease, most: u64) -> Result<Option<i64>, StoreError> {
    match drop_oldest(store, lease, most).await {
        Ok(dropped) => Ok(dropped.map(|dropped| dropped as i64)),
        Err(unavailable @ StoreError::Unavailable(_)) => Err(unavailable),
        Err(failure) => {
            error!(error = %failure, "the oldest audit entries of unknown callers cannot be removed: {failure}");
            Ok(Some(0))
        }
    }
}

async fn drop_oldest(store: &Store, lease: Lease, most: u64) -> Result<Option<u64>, StoreError> {
    let mut dropped = 0;
    for _ in 0..CALLS {
        let chain = store.audit_chain(lease.partition, UNKNOWN_CALLER).await?;
        let first = chain.anchor_sequence + 1;
        let last = first + ROWS as u64 - 1;
        // The one behind the last that goes is sealed with its hash.
        if chain.sequence < most + last || chain.sealed_sequence <= last {
            break;
        }
        let Some(day) = day_of(store, lease.partition, first).await? else {
            break;
        };
        let stretch = Stretch {
            day,
            after: None,
            descending: false,
            rows: ROWS,
        };
        let mut entries = store
            .audit_entries(lease.partition, UNKNOWN_CALLER, &[stretch])
            .await?;
        let rows: Vec<_> = entries
            .pop()
            .into_iter()
            .flatten()
            .filter_map(|entry| view_row(lease.partition, UNKNOWN_CALLER, day, entry))
            .collect();
        // First, because nothing finds them once their entries are gone.
        store.remove_rows(View::Audit, &rows).await?;
        match store
            .drop_oldest(lease, UNKNOWN_CALLER, day, ROWS, &ENTRY)
            .await?
        {
            None => return Ok(None),
            Some(0) => break,
            Some(count) => dropped += count,
        }
    }
    Ok(Some(dropped))
}

/// The day whose log begins with the entry of this number.
async fn day_of(
    store: &Store,
    partition: Partition,
    sequence: u64,
) -> Result<Option<Day>, StoreError> {
    let today = store.today();
    let days: Vec<_> = (-DAYS..=1).map(|by| today.plus(by)).collect();
    let first_of = |day: &Day| Stretch {
        day: *day,
        after: None,
        descending: false,
        rows: 1,
    };
    let stretches: Vec<_> = days.iter().map(first_of).collect();
    let logs = store
        .audit_entries(partition, UNKNOWN_CALLER, &stretches)
        .await?;
    let begins =
        |log: &[StoredEntry]| log.first().and_then(StoredEntry::sequence) == Some(sequence);
    let mut logs = days.into_iter().zip(logs);
    Ok(logs.find(|(_, log)| begins(log)).map(|(day, _)| day))
}
