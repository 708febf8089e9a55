//! Seals audit chains: adds to each entry the hash of the one before it. And keeps the view of all audit logs, since what is
//! to be sealed is what the view has not seen.
//!
//! Scripts that append an entry put the chain's name into `unsealed`. A turn at a chain reads what follows the last sealed
//! entry, adds it to the view (again, if somebody did before: that changes nothing), and then writes the seals, unless
//! somebody else has meanwhile. So it can be killed between any two steps, and two at once come to the same chain.

mod tail;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use prometheus::{Gauge, IntCounter, Registry};
use tracing::{error, info};

pub use tail::{Tail, TailEntry};

use super::ViewMetrics;
use crate::domain::audit::query::stands_for_no_tenant;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::audit_chain::{Chain, NewSeals, Sealed};
use crate::store::dispatcher::views::{
    KEY_ID, NewRow, REQUEST_ID, RESOURCE_ID, Row, TRACE_ID, View, id_digest,
};
use crate::store::{Day, Lease, Store, StoreError};

/// How often to look.
pub const PERIOD: Duration = Duration::from_millis(500);

/// Turns at one chain in one pass, so that the others need not wait.
const TURNS: usize = 10;
/// After how long a chain that could not be sealed is tried again.
const PUT_OFF: Duration = Duration::from_secs(30);

/// What one pass came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// Entries sealed.
    pub sealed: u64,
    /// Numbers that no entry has; the chain goes on behind them.
    pub missing: u64,
    /// Chains that could not be sealed, and are put off.
    pub failed: usize,
    /// Whether more is to be sealed: go on at once.
    pub more: bool,
}

/// Seals chains, under the leases that it is given.
pub struct Sealer {
    store: Store,
    keep: Duration,
    view: ViewMetrics,
    sealed: IntCounter,
    missing: IntCounter,
    lag_seconds: Gauge,
    put_off: Mutex<HashMap<(Partition, String), PutOff>>,
}

/// A chain that could not be sealed.
#[derive(Clone, Copy)]
struct PutOff {
    /// When it is tried again.
    until: Instant,
    /// From when the oldest of its entries is that is not sealed, as far as is known; milliseconds.
    since_ms: i64,
    /// Whether the view misses entries through no fault of the chain, and is held back.
    unseen: bool,
}

/// How a turn at a chain ended.
enum Turn {
    /// All that was there is sealed.
    Done,
    /// There is more.
    More,
    /// The lease is another's.
    Fenced,
    /// The view did not take the entries; nothing was sealed.
    Unseen(StoreError),
}

impl Sealer {
    /// A worker over logs that are kept for `keep`. Its metrics are `budget_audit_sealed_total`,
    /// `budget_audit_missing_total` and `budget_audit_unsealed_lag_seconds`.
    ///
    /// # Errors
    /// When one of the names is taken in `registry`.
    pub fn new(
        store: Store,
        keep: Duration,
        view: ViewMetrics,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let sealer = Self {
            store,
            keep,
            view,
            sealed: IntCounter::new(
                "budget_audit_sealed_total",
                "Audit entries that were sealed here.",
            )?,
            missing: IntCounter::new(
                "budget_audit_missing_total",
                "Numbers of audit chains that no entry had when those behind them were sealed.",
            )?,
            lag_seconds: Gauge::new(
                "budget_audit_unsealed_lag_seconds",
                "Age of the oldest audit entry that was still to be sealed at the last pass.",
            )?,
            put_off: Mutex::default(),
        };
        registry.register(Box::new(sealer.sealed.clone()))?;
        registry.register(Box::new(sealer.missing.clone()))?;
        registry.register(Box::new(sealer.lag_seconds.clone()))?;
        Ok(sealer)
    }

    /// One pass over the partitions of `leases`. Those that turn out to be another dispatcher's are told to `lost`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; what fails for one chain alone is logged, and put off, instead.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let mut pass = Pass::default();
        // The clock of every node was at least there before anything was found to be sealed.
        let times = self.store.node_times().await?;
        let Some(now_ms) = times.iter().map(|(_, ms)| *ms).min() else {
            return Ok(pass);
        };
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        let unsealed = self.store.unsealed(&partitions).await?;
        let (mut reached, mut oldest_ms) = (Vec::new(), now_ms);
        for (lease, names) in leases.iter().zip(unsealed) {
            // Its node is out of reach; the others need not wait.
            let Some(names) = names else { continue };
            let mut whole = true;
            for name in names {
                let mut since_ms = now_ms;
                let turn = self.take(*lease, &name, &mut since_ms, &mut pass).await?;
                oldest_ms = oldest_ms.min(since_ms);
                match turn {
                    Turn::Done => {}
                    Turn::More | Turn::Unseen(_) => whole = false,
                    Turn::Fenced => {
                        lost(*lease);
                        whole = false;
                        break;
                    }
                }
            }
            if whole {
                reached.push((lease.partition, now_ms));
            }
        }
        if !reached.is_empty() {
            let watermark_ms = self.store.set_watermarks(View::Audit, &reached).await?;
            self.view.lag(View::Audit, now_ms, watermark_ms);
        }
        self.lag_seconds.set((now_ms - oldest_ms) as f64 / 1_000.0);
        self.sealed.inc_by(pass.sealed);
        self.missing.inc_by(pass.missing);
        Ok(pass)
    }

    /// Takes turns at one chain until it is sealed. A chain that fails counts as done, so that it keeps no other from the
    /// view; where the view itself fails, more is to be done. `since_ms`: from when its oldest entry is that is not sealed.
    async fn take(
        &self,
        lease: Lease,
        name: &str,
        since_ms: &mut i64,
        pass: &mut Pass,
    ) -> Result<Turn, StoreError> {
        let place = (lease.partition, name.to_owned());
        if let Some(put_off) = self.lock().get(&place).copied() {
            *since_ms = put_off.since_ms.min(*since_ms);
            if put_off.until > Instant::now() {
                return Ok(if put_off.unseen {
                    Turn::More
                } else {
                    Turn::Done
                });
            }
        }
        for _ in 0..TURNS {
            let (failure, unseen) = match self.turn(lease, name, since_ms, pass).await {
                Ok(Turn::More) => continue,
                Ok(Turn::Unseen(failure)) => (failure, true),
                Ok(turn) => return Ok(turn),
                Err(failure) => (failure, false),
            };
            if let StoreError::Unavailable(error) = failure {
                return Err(error.into());
            }
            pass.failed += 1;
            self.put_off(place, *since_ms, unseen);
            error!(
                partition = %lease.partition, tenant.id = name, error = %failure,
                "the audit chain of `{name}` cannot be sealed, and is tried again in {} s: {failure}",
                PUT_OFF.as_secs()
            );
            return Ok(if unseen { Turn::More } else { Turn::Done });
        }
        pass.more = true;
        Ok(Turn::More)
    }

    async fn turn(
        &self,
        lease: Lease,
        name: &str,
        since_ms: &mut i64,
        pass: &mut Pass,
    ) -> Result<Turn, StoreError> {
        let chain = self.store.audit_chain(lease.partition, name).await?;
        let tail = self.tail(lease.partition, name, &chain).await?;
        if let Some(first) = tail.entries.first() {
            *since_ms = first.at_ms.min(*since_ms);
        }
        if let Err(failure) = self.show(lease.partition, name, &tail).await {
            return Ok(Turn::Unseen(failure));
        }
        self.lock().remove(&(lease.partition, name.to_owned()));
        match self.seal(lease, name, &chain, &tail).await? {
            Sealed::Fenced => Ok(Turn::Fenced),
            Sealed::Passed => Ok(Turn::More),
            Sealed::UpTo { left, .. } => {
                pass.sealed += tail.entries.len() as u64;
                pass.missing += tail.missing;
                if tail.missing > 0 {
                    error!(
                        partition = %lease.partition, tenant.id = name, missing = tail.missing,
                        "the audit chain of `{name}` lacks {} entries; it goes on behind them, see `audit verify`",
                        tail.missing
                    );
                }
                if tail.entries.is_empty() && left > 0 {
                    // The numbers were given and the entries are gone: nothing can be sealed until the next is appended.
                    info!(
                        tenant.id = name,
                        left, "{left} audit entries of `{name}` are gone"
                    );
                    let place = (lease.partition, name.to_owned());
                    self.put_off(place, *since_ms, false);
                    return Ok(Turn::Done);
                }
                Ok(if left > 0 { Turn::More } else { Turn::Done })
            }
        }
    }

    /// What follows the last sealed entry of a chain, in the order of the numbers.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn tail(
        &self,
        partition: Partition,
        name: &str,
        chain: &Chain,
    ) -> Result<Tail, StoreError> {
        tail::read(&self.store, self.keep, partition, name, chain).await
    }

    /// Adds entries to the view of all audit logs.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn show(
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
            .map(|entry| row(partition, name, entry))
            .collect();
        self.store.index_rows(View::Audit, &rows, self.keep).await?;
        let added = self.view.rows.with_label_values(&[View::Audit.as_str()]);
        added.inc_by(rows.len() as u64);
        Ok(())
    }

    /// Seals entries that follow the last sealed one of a chain as it was read.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn seal(
        &self,
        lease: Lease,
        name: &str,
        chain: &Chain,
        tail: &Tail,
    ) -> Result<Sealed, StoreError> {
        let mut chain = chain.clone();
        let mut outcome = None;
        for part in tail.entries.chunk_by(|a, b| a.day == b.day) {
            let new = seals(name, &chain.sealed_hash, part);
            let sealed = self.store.seal(lease, name, &chain, Some(&new)).await?;
            let Sealed::UpTo { sequence, .. } = sealed else {
                return Ok(sealed);
            };
            (chain.sealed_sequence, chain.sealed_hash) = (sequence, new.hash);
            outcome = Some(sealed);
        }
        match outcome {
            Some(sealed) => Ok(sealed),
            None => self.store.seal(lease, name, &chain, None).await,
        }
    }

    fn put_off(&self, place: (Partition, String), since_ms: i64, unseen: bool) {
        let put_off = PutOff {
            until: Instant::now() + PUT_OFF,
            since_ms,
            unseen,
        };
        self.lock().insert(place, put_off);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Partition, String), PutOff>> {
        // A map that another thread left in a panic is whole: each change is one call.
        self.put_off
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Seals for entries of one day that follow an entry of this hash.
fn seals(name: &str, hash: &str, entries: &[TailEntry]) -> NewSeals {
    let mut hash = hash.to_owned();
    let mut new = NewSeals {
        day: entries.first().map_or(Day::of_ms(0), |entry| entry.day),
        seals: Vec::with_capacity(entries.len()),
        last: EntryId::ZERO,
        hash: String::new(),
    };
    for entry in entries {
        let next = entry.stored.hash(name, &hash);
        new.seals
            .push((entry.sequence, std::mem::replace(&mut hash, next)));
        new.last = entry.id;
    }
    new.hash = hash;
    new
}

/// A row of the view, and the ids that it can be asked for by.
fn row(partition: Partition, name: &str, entry: &TailEntry) -> NewRow {
    let named = [
        (REQUEST_ID, "request_id"),
        (TRACE_ID, "trace_id"),
        (RESOURCE_ID, "resource_id"),
        (KEY_ID, "key_id"),
    ];
    let ids = named
        .into_iter()
        .filter_map(|(letter, field)| Some(id_digest(letter, entry.stored.get(field)?)));
    NewRow {
        day: entry.day,
        at_ms: entry.at_ms,
        row: Row {
            partition,
            entry: entry.id,
            tenant: name.to_owned(),
            kind: None,
        },
        // What belongs to no tenant lies in every partition, so that it has an index of its own.
        kinds: Vec::from_iter(stands_for_no_tenant(name).then(|| name.to_owned())),
        ids: ids.collect(),
        denials: None,
    }
}
