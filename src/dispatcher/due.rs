//! What is due in the leased partitions, from indexes by due time.

use tracing::error;

use crate::domain::ids::Partition;
use crate::store::dispatcher::poll::Due;
use crate::store::{Keys, Lease, Store, StoreError};

/// The partitions of `leases`, in their order.
pub(super) fn partitions(leases: &[Lease]) -> Vec<Partition> {
    leases.iter().map(|lease| lease.partition).collect()
}

/// The due members of each leased partition whose node answered.
pub(super) struct DueRows {
    /// Leases and due members, in the order of the leases.
    pub by_lease: Vec<(Lease, Vec<Due>)>,
    /// By how much the earliest member is overdue, in seconds; 0 when nothing is due.
    pub lag_seconds: f64,
    /// Partitions whose node is out of reach; they wait for a later pass.
    pub unreachable: usize,
    rows: usize,
}

impl DueRows {
    /// Reads what is due at `now_ms` in an index of the leased partitions, at most `rows` members of each.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn poll(
        store: &Store,
        index: fn(&Keys, Partition) -> String,
        leases: &[Lease],
        now_ms: i64,
        rows: usize,
    ) -> Result<Self, StoreError> {
        let polled = store.poll(index, &partitions(leases), rows).await?;
        Ok(Self::of(leases, polled, now_ms, rows))
    }

    fn of(leases: &[Lease], polled: Vec<Option<Vec<Due>>>, now_ms: i64, rows: usize) -> Self {
        let mut selected = Self {
            by_lease: Vec::new(),
            lag_seconds: 0.0,
            unreachable: polled.iter().filter(|found| found.is_none()).count(),
            rows,
        };
        for (lease, found) in leases.iter().zip(polled) {
            let mut due = found.unwrap_or_default();
            due.retain(|due| due.at_ms <= now_ms);
            for Due { at_ms, .. } in &due {
                let lag_seconds = (now_ms - at_ms) as f64 / 1_000.0;
                selected.lag_seconds = selected.lag_seconds.max(lag_seconds);
            }
            selected.by_lease.push((*lease, due));
        }
        selected
    }

    /// Whether a partition may have more due members than were read.
    pub fn more(&self) -> bool {
        self.by_lease.iter().any(|(_, due)| due.len() == self.rows)
    }
}

/// What one pass over due members did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// Events and audit entries that were emitted, or closes and bulk actions that finished.
    pub done: i64,
    /// Members for which that failed.
    pub failed: usize,
    /// Whether more is due.
    pub more: bool,
}

/// Calls `emit` with each due member; `what` names the members in log lines. `emit` returns how many events and entries it
/// emitted, `None` where another dispatcher holds the lease by now.
///
/// # Errors
/// [`StoreError`] when Redis is unavailable; a failure of one member alone is logged and counted.
pub(super) async fn emit_due<F>(
    due: DueRows,
    what: &str,
    lost: &mut impl FnMut(Lease),
    emit: impl Fn(Lease, String) -> F,
) -> Result<Pass, StoreError>
where
    F: Future<Output = Result<Option<i64>, StoreError>>,
{
    let mut pass = Pass::default();
    for (lease, members) in due.by_lease {
        let (before, full) = (pass.done, members.len() == due.rows);
        for Due { member, .. } in members {
            match emit(lease, member.clone()).await {
                Ok(Some(count)) => pass.done += count,
                Ok(None) => {
                    lost(lease);
                    break;
                }
                Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                Err(failure) => {
                    pass.failed += 1;
                    error!(member, error = %failure, "cannot emit the {what} of `{member}`: {failure}");
                }
            }
        }
        // Members that cannot be emitted stay, so a partition that is full of them has nothing more to offer.
        pass.more |= full && pass.done > before;
    }
    Ok(pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a pass makes of partitions with so many due members, where `emit` fails on those of the first.
    async fn more_after(members: [usize; 2]) -> bool {
        let lease = |index| Lease {
            partition: Partition::new(index).expect("a partition"),
            token: 1,
        };
        let leases = [lease(0), lease(1)];
        let due = |count| {
            let due = |number: usize| Due {
                member: number.to_string(),
                at_ms: 0,
            };
            Some((0..count).map(due).collect())
        };
        let due = DueRows::of(&leases, members.map(due).into(), 1, 2);
        let emit = |lease: Lease, member: String| {
            let detail = format!("`{member}` is damaged");
            let code = "MEMBER".to_owned();
            std::future::ready(match lease.partition.index() {
                0 => Err(StoreError::Refused { code, detail }),
                _ => Ok(Some(1)),
            })
        };
        let pass = emit_due(due, "test", &mut |_| {}, emit).await;
        pass.expect("Redis answers").more
    }

    #[tokio::test]
    async fn only_a_partition_that_got_on_has_more() {
        assert!(more_after([0, 2]).await, "the second was read in part");
        assert!(!more_after([0, 1]).await, "both were read to the end");
        assert!(!more_after([2, 1]).await, "the first cannot be emitted");
    }
}
