//! Seals audit chains, so that each entry carries the hash of the one before it, and keeps the view of all audit logs,
//! because unsealed entries are those that the view may lack.
//!
//! Scripts that append an entry add the chain's name to `unsealed`. A step reads a page after the last sealed entry, adds it
//! to the view, which is idempotent, and then writes the seals unless another dispatcher did so meanwhile. So a dispatcher
//! may be killed between any two steps, and two dispatchers build the same chain.

mod tail;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus::Registry;
use tracing::{error, info};

pub use tail::Tail;

use super::due::partitions;
use super::metrics::ViewMetrics;
use super::workers::lease_worker;
use crate::domain::audit::StoredEntry;
use crate::domain::ids::Partition;
use crate::metrics::metrics;
use crate::store::dispatcher::audit_chain::{Chain, SealReply};
use crate::store::dispatcher::index_rows::NewRow;
use crate::store::dispatcher::views::View;
use crate::store::{Day, Lease, Store, StoreError};

/// Pages of one chain in one pass, so that a long chain does not delay the others.
const PAGES_PER_CHAIN: usize = 10;
/// After how long a chain that could not be sealed is retried.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// Result of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SealPass {
    /// Entries sealed.
    pub sealed: u64,
    /// Sequence numbers without an entry; the chain continues after them.
    pub missing: u64,
    /// Chains that could not be sealed; they are retried later.
    pub failed: usize,
    /// Whether more entries are unsealed.
    pub more: bool,
}

metrics! {
    /// Metrics of the seals.
    struct SealMetrics {
        /// Audit entries that this dispatcher sealed.
        sealed: IntCounter = "budget_audit_entries_sealed_total",
        /// Sequence numbers of audit chains without an entry when a later entry was sealed.
        missing: IntCounter = "budget_audit_entries_missing_total",
        /// Age of the oldest unsealed audit entry at the last pass.
        lag_seconds: Gauge = "budget_audit_seal_lag_seconds",
    }
}

/// Seals audit chains.
pub struct Sealer {
    store: Store,
    keep: Duration,
    view: ViewMetrics,
    metrics: SealMetrics,
    postponed: Mutex<HashMap<(Partition, String), Postponed>>,
}

/// A chain that could not be sealed.
#[derive(Clone, Copy)]
struct Postponed {
    /// When it is retried.
    until: Instant,
    /// Time of its oldest unsealed entry, as far as known, in milliseconds.
    since_ms: i64,
    /// Whether the view failed to take its entries, so that the view's watermark must wait.
    not_in_view: bool,
}

/// The state of a chain after a step.
enum ChainState {
    /// All its entries are sealed.
    Done,
    /// More entries are unsealed.
    More,
    /// Another dispatcher holds the lease.
    Fenced,
    /// The view failed to take the entries, so none was sealed.
    NotInView(StoreError),
}

impl Sealer {
    /// A worker over audit logs that are kept for `keep`, whose metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(
        store: Store,
        keep: Duration,
        view: ViewMetrics,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        Ok(Self {
            store,
            keep,
            view,
            metrics: SealMetrics::register(registry)?,
            postponed: Mutex::default(),
        })
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one chain alone is logged and postponed.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<SealPass, StoreError> {
        let mut pass = SealPass::default();
        // Read before the unsealed entries, so that no node's clock was behind it by then.
        let times = self.store.node_times().await?;
        let Some(now_ms) = times.iter().map(|(_, ms)| *ms).min() else {
            return Ok(pass);
        };
        let unsealed = self.store.unsealed(&partitions(leases)).await?;
        let (mut reached, mut oldest_ms) = (Vec::new(), now_ms);
        for (lease, names) in leases.iter().zip(unsealed) {
            // Where the node is out of reach, the others need not wait.
            let Some(names) = names else { continue };
            let mut complete = true;
            for name in names {
                let mut since_ms = now_ms;
                let state = self
                    .seal_chain(*lease, &name, &mut since_ms, &mut pass)
                    .await?;
                oldest_ms = oldest_ms.min(since_ms);
                match state {
                    ChainState::Done => {}
                    ChainState::More | ChainState::NotInView(_) => complete = false,
                    ChainState::Fenced => {
                        lost(*lease);
                        complete = false;
                        break;
                    }
                }
            }
            if complete {
                reached.push((lease.partition, now_ms));
            }
        }
        if !reached.is_empty() {
            let watermark_ms = self.store.set_watermarks(View::Audit, &reached).await?;
            self.view.lag(View::Audit, now_ms, watermark_ms);
        }
        let metrics = &self.metrics;
        metrics
            .lag_seconds
            .set((now_ms - oldest_ms) as f64 / 1_000.0);
        metrics.sealed.inc_by(pass.sealed);
        metrics.missing.inc_by(pass.missing);
        Ok(pass)
    }

    /// Seals one chain, page by page, and lowers `since_ms` to the time of its oldest unsealed entry. A chain that fails
    /// counts as done, so that it does not hold back the view; when the view itself fails, more is to do.
    async fn seal_chain(
        &self,
        lease: Lease,
        name: &str,
        since_ms: &mut i64,
        pass: &mut SealPass,
    ) -> Result<ChainState, StoreError> {
        let chain = (lease.partition, name.to_owned());
        let postponed = self.postponed.lock().get(&chain).copied();
        if let Some(postponed) = postponed {
            *since_ms = postponed.since_ms.min(*since_ms);
            if postponed.until > Instant::now() {
                return Ok(ChainState::after_failure(postponed.not_in_view));
            }
        }
        for _ in 0..PAGES_PER_CHAIN {
            let step = self.seal_page(lease, name, since_ms, pass);
            let (failure, not_in_view) = match step.await {
                Ok(ChainState::More) => continue,
                Ok(ChainState::NotInView(failure)) => (failure, true),
                Ok(state) => return Ok(state),
                Err(failure) => (failure, false),
            };
            if let StoreError::Unavailable(error) = failure {
                return Err(error.into());
            }
            pass.failed += 1;
            self.postpone(lease, name, *since_ms, not_in_view);
            error!(
                partition = %lease.partition, tenant.id = name, error = %failure,
                "the audit chain of `{name}` cannot be sealed and is retried in {} s: {failure}",
                RETRY_AFTER.as_secs()
            );
            return Ok(ChainState::after_failure(not_in_view));
        }
        pass.more = true;
        Ok(ChainState::More)
    }

    /// Seals the next page of a chain.
    async fn seal_page(
        &self,
        lease: Lease,
        name: &str,
        since_ms: &mut i64,
        pass: &mut SealPass,
    ) -> Result<ChainState, StoreError> {
        let chain = self.store.audit_chain(lease.partition, name).await?;
        let tail = self.tail(lease.partition, name, &chain).await?;
        if let Some(first) = tail.entries.first() {
            *since_ms = first.at_ms.min(*since_ms);
        }
        if let Err(failure) = self.add_to_view(lease.partition, name, &tail).await {
            return Ok(ChainState::NotInView(failure));
        }
        self.postponed
            .lock()
            .remove(&(lease.partition, name.to_owned()));
        match self.seal(lease, name, &chain, &tail).await? {
            None => Ok(ChainState::Fenced),
            Some(SealReply::Passed { .. }) => Ok(ChainState::More),
            Some(SealReply::Sealed { left, .. }) => {
                pass.sealed += tail.entries.len() as u64;
                pass.missing += tail.missing;
                if tail.missing > 0 {
                    error!(
                        partition = %lease.partition, tenant.id = name, missing = tail.missing,
                        "the audit chain of `{name}` lacks {} entries and continues after them; see `audit verify`",
                        tail.missing
                    );
                }
                if tail.entries.is_empty() && left > 0 {
                    // Nothing can be sealed until the next entry is appended.
                    info!(
                        tenant.id = name,
                        left, "the last {left} audit entries of `{name}` are gone"
                    );
                    self.postpone(lease, name, *since_ms, false);
                    return Ok(ChainState::Done);
                }
                Ok(if left > 0 {
                    ChainState::More
                } else {
                    ChainState::Done
                })
            }
        }
    }

    /// Adds entries to the view of all audit logs.
    pub async fn add_to_view(
        &self,
        partition: Partition,
        name: &str,
        tail: &Tail,
    ) -> Result<(), StoreError> {
        if tail.entries.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = tail
            .entries
            .iter()
            .map(|entry| tail::row(partition, name, entry))
            .collect();
        self.store.index_rows(View::Audit, &rows, self.keep).await?;
        let added = self.view.added.with_label_values(&[View::Audit.as_str()]);
        added.inc_by(rows.len() as u64);
        Ok(())
    }

    /// Seals the entries of `tail`, unless the chain has moved since it was read; `None` where another dispatcher holds the
    /// lease by now.
    pub async fn seal(
        &self,
        lease: Lease,
        name: &str,
        chain: &Chain,
        tail: &Tail,
    ) -> Result<Option<SealReply>, StoreError> {
        let mut chain = chain.clone();
        let mut outcome = None;
        for entries in tail.entries.chunk_by(|a, b| a.day == b.day) {
            let new = tail::seals(name, &chain.sealed_hash, entries);
            let sealed = self.store.seal(lease, name, &chain, Some(&new)).await?;
            let Some(SealReply::Sealed { sequence, .. }) = sealed else {
                return Ok(sealed);
            };
            (chain.sealed_sequence, chain.sealed_hash) = (sequence, new.hash);
            outcome = sealed;
        }
        match outcome {
            None => self.store.seal(lease, name, &chain, None).await,
            sealed => Ok(sealed),
        }
    }

    fn postpone(&self, lease: Lease, name: &str, since_ms: i64, not_in_view: bool) {
        let postponed = Postponed {
            until: Instant::now() + RETRY_AFTER,
            since_ms,
            not_in_view,
        };
        self.postponed
            .lock()
            .insert((lease.partition, name.to_owned()), postponed);
    }
}

impl ChainState {
    /// The state of a chain that failed.
    fn after_failure(not_in_view: bool) -> Self {
        if not_in_view { Self::More } else { Self::Done }
    }
}

/// The row of a stored entry in the view of all audit logs; `None` for an entry that no script appended.
pub(super) fn view_row(
    partition: Partition,
    name: &str,
    day: Day,
    stored: StoredEntry,
) -> Option<NewRow> {
    let entry = tail::TailEntry::read(day, stored)?;
    Some(tail::row(partition, name, &entry))
}

lease_worker!(Sealer: "sealer", Duration::from_millis(500));
