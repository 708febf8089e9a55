//! Due work of the leased partitions, from indexes by due time.

use tracing::error;

use crate::domain::ids::Partition;
use crate::store::dispatcher::emit::Emission;
use crate::store::dispatcher::poll::Due;
use crate::store::{Keys, Lease, Store, StoreError};

/// No bound of how far ahead members are.
pub(super) const UNBOUNDED_MS: i64 = i64::MAX;

/// How long a member is postponed that cannot be emitted and blocks others.
pub(super) const RETRY_AFTER_MS: i64 = 300_000;

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
    /// Reads what is due at `now_ms` in an index of the leased partitions, at most `rows` members of each. Members are set at most
    /// `longest_ms` ahead: those further ahead are from before the clock went back, and are due.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn poll(
        store: &Store,
        index: fn(&Keys, Partition) -> String,
        leases: &[Lease],
        now_ms: i64,
        rows: usize,
        longest_ms: i64,
    ) -> Result<Self, StoreError> {
        let polled = store.poll(index, &partitions(leases), rows).await?;
        let ahead_ms = now_ms.saturating_add(longest_ms);
        let mut selected = Self {
            by_lease: Vec::new(),
            lag_seconds: 0.0,
            unreachable: polled.iter().filter(|found| found.is_none()).count(),
            rows,
        };
        for (lease, found) in leases.iter().zip(polled) {
            let mut due = found.unwrap_or_default();
            due.retain(|due| due.at_ms <= now_ms || due.at_ms > ahead_ms);
            for Due { at_ms, .. } in &due {
                let lag_seconds = (now_ms - at_ms) as f64 / 1_000.0;
                selected.lag_seconds = selected.lag_seconds.max(lag_seconds);
            }
            selected.by_lease.push((*lease, due));
        }
        Ok(selected)
    }

    /// Whether a partition may have more due members than were read.
    pub fn more(&self) -> bool {
        self.by_lease.iter().any(|(_, due)| due.len() == self.rows)
    }
}

/// Result of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// Events and audit entries that were emitted, or closes and bulk actions that finished.
    pub done: i64,
    /// Members for which that failed.
    pub failed: usize,
    /// Whether more is due.
    pub more: bool,
}

/// Calls `emit` with each due member; `what` names them in log lines. Returns besides which members failed in partitions that may have
/// more: these come first in the index, so they are to be postponed, or the others would never be read.
///
/// # Errors
/// [`StoreError`] when Redis is unavailable; a failure of one member alone is logged and counted.
pub(super) async fn emit_each<F>(
    due: DueRows,
    what: &str,
    lost: &mut impl FnMut(Lease),
    emit: impl Fn(Lease, String) -> F,
) -> Result<(Pass, Vec<(Partition, String)>), StoreError>
where
    F: Future<Output = Result<Emission, StoreError>>,
{
    let (mut pass, mut postponed) = (Pass::default(), Vec::new());
    for (lease, members) in due.by_lease {
        let full = members.len() == due.rows;
        for Due { member, .. } in members {
            match emit(lease, member.clone()).await {
                Ok(Emission::Flushed(count)) => {
                    pass.done += count;
                    pass.more |= full;
                }
                Ok(Emission::Early) => {}
                Ok(Emission::Fenced) => {
                    lost(lease);
                    break;
                }
                Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                Err(failure) => {
                    pass.failed += 1;
                    error!(member, error = %failure, "cannot emit {what} of `{member}`: {failure}");
                    if full {
                        postponed.push((lease.partition, member));
                    }
                }
            }
        }
    }
    Ok((pass, postponed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a pass over partitions with these numbers of due members, where `emit` fails on those of the first and on those of the
    /// second does this: whether there is more, and how many members are to be postponed.
    async fn pass_over(members: [usize; 2], second: Emission) -> (bool, usize) {
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
            (0..count).map(due).collect()
        };
        let due = DueRows {
            by_lease: leases.into_iter().zip(members.map(due)).collect(),
            lag_seconds: 0.0,
            unreachable: 0,
            rows: 2,
        };
        let emit = |lease: Lease, member: String| {
            let detail = format!("`{member}` is damaged");
            let code = "MEMBER".to_owned();
            std::future::ready(match lease.partition.index() {
                0 => Err(StoreError::ErrorReply { code, detail }),
                _ => Ok(second),
            })
        };
        let pass = emit_each(due, "test", &mut |_| {}, emit).await;
        let (pass, postponed) = pass.expect("Redis answers");
        assert!(
            postponed
                .iter()
                .all(|(partition, _)| partition.index() == 0)
        );
        (pass.more, postponed.len())
    }

    #[tokio::test]
    async fn only_a_partition_with_progress_has_more() {
        use Emission::{Early, Flushed};
        for (members, second, expected, why) in [
            ([0, 2], Flushed(1), (true, 0), "the second was read in part"),
            ([0, 2], Flushed(0), (true, 0), "its members are gone"),
            ([0, 2], Early, (false, 0), "its members stay"),
            ([0, 1], Flushed(1), (false, 0), "both were read to the end"),
            (
                [2, 1],
                Flushed(1),
                (false, 2),
                "the first cannot be emitted",
            ),
            ([1, 1], Flushed(1), (false, 0), "the first hides nothing"),
        ] {
            assert_eq!(pass_over(members, second).await, expected, "{why}");
        }
    }
}
