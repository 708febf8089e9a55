//! What is due in the leased partitions, from indexes by due time.

use tracing::error;

use crate::domain::ids::Partition;
use crate::store::dispatcher::flush::Flushed;
use crate::store::dispatcher::poll::Due;
use crate::store::{Lease, StoreError};

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
    /// Whether a partition may have more due members than were read.
    pub more: bool,
    /// Partitions whose node is out of reach; they wait for a later pass.
    pub unreachable: usize,
}

impl DueRows {
    /// Selects what is due at `now_ms` from at most `rows` members per partition, polled in the order of `leases`.
    pub fn new(leases: &[Lease], polled: Vec<Option<Vec<Due>>>, now_ms: i64, rows: usize) -> Self {
        let mut selected = Self {
            by_lease: Vec::new(),
            lag_seconds: 0.0,
            more: false,
            unreachable: polled.iter().filter(|found| found.is_none()).count(),
        };
        for (lease, found) in leases.iter().zip(polled) {
            let mut due = found.unwrap_or_default();
            due.retain(|due| due.at_ms <= now_ms);
            selected.more |= due.len() == rows;
            for Due { at_ms, .. } in &due {
                let lag_seconds = (now_ms - at_ms) as f64 / 1_000.0;
                selected.lag_seconds = selected.lag_seconds.max(lag_seconds);
            }
            selected.by_lease.push((*lease, due));
        }
        selected
    }
}

/// What a pass emitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Emitted {
    /// Events and audit entries.
    pub emitted: i64,
    /// Due members of which nothing could be emitted.
    pub failed: usize,
    /// Whether more is due.
    pub more: bool,
}

/// Calls `flush` with each due member; `what` names the members in log lines.
///
/// # Errors
/// [`StoreError`] when Redis is unavailable; a failure of one member alone is logged and counted.
pub(super) async fn emit_due<F>(
    due: DueRows,
    what: &str,
    lost: &mut impl FnMut(Lease),
    flush: impl Fn(Lease, String) -> F,
) -> Result<Emitted, StoreError>
where
    F: Future<Output = Result<Flushed, StoreError>>,
{
    let mut pass = Emitted::default();
    for (lease, members) in due.by_lease {
        for Due { member, .. } in members {
            match flush(lease, member.clone()).await {
                Ok(Flushed::Facts(count)) => pass.emitted += count,
                Ok(Flushed::Early) => {}
                Ok(Flushed::Fenced) => {
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
    }
    pass.more = due.more && pass.emitted > 0;
    Ok(pass)
}
