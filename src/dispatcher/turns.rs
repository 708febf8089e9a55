//! Turns ledgers that are due: a period or a window is over, or an increase ends. So their events come in time, and nobody waits.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::Registry;
use tracing::error;

use super::due::{DueRows, Pass, RETRY_AFTER_MS, UNBOUNDED_MS};
use super::sweep::ClockWatch;
use super::workers::lease_worker;
use crate::domain::budget::projection::LedgerTurn;
use crate::domain::cause::Cause;
use crate::domain::ids::{Partition, TenantId};
use crate::metrics::metrics;
use crate::store::runtime::turn::PAGE_LEDGERS;
use crate::store::{Keys, Lane, Lease, Store, StoreError};

/// Entries of the index that a pass examines in each partition.
const ROWS: usize = 200;

metrics! {
    /// Metrics of turns.
    struct TurnMetrics {
        /// Ledgers that the dispatcher turned.
        turned: IntCounter = "budget_ledgers_turned_total",
    }
}

/// Turns ledgers that are due.
pub struct Turns {
    store: Store,
    clock: ClockWatch,
    metrics: TurnMetrics,
}

impl Turns {
    /// A worker that halts while `clock` is in doubt. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(store: Store, clock: ClockWatch, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            store,
            clock,
            metrics: TurnMetrics::register(registry)?,
        })
    }

    /// Does one pass over the partitions of `leases`. It needs no lease: each turn happens once, whoever makes it.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a ledger that cannot be turned is logged.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        _: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let Some(now_ms) = self.clock.now_ms(&self.store).await? else {
            return Ok(Pass::default());
        };
        let (store, index) = (&self.store, Keys::turns);
        let due = DueRows::poll(store, index, leases, now_ms, ROWS, UNBOUNDED_MS).await?;
        let mut pass = Pass {
            more: due.more(),
            ..Pass::default()
        };
        for (lease, members) in due.by_lease {
            let mut tenants: BTreeMap<TenantId, Vec<String>> = BTreeMap::new();
            for member in members.into_iter().map(|due| due.member) {
                let tenant = member.split(' ').next().and_then(TenantId::parse);
                match tenant.filter(|tenant| tenant.partition() == lease.partition) {
                    Some(tenant) => tenants.entry(tenant).or_default().push(member),
                    None => {
                        self.postpone(lease.partition, member, now_ms, &mut pass)
                            .await?
                    }
                }
            }
            for (tenant, members) in tenants {
                for page in members.chunks(PAGE_LEDGERS) {
                    match self.turn(&tenant, page, now_ms, &mut pass).await {
                        Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                        Ok(()) => continue,
                        Err(failure) => {
                            error!(%tenant, error = %failure, "cannot turn ledgers of {tenant}: {failure}");
                        }
                    }
                    // A damaged record of one tenant delays no other.
                    for member in page {
                        self.postpone(lease.partition, member.clone(), now_ms, &mut pass)
                            .await?;
                    }
                }
            }
        }
        Ok(pass)
    }

    /// Turns ledgers of one tenant, by their entries in the index.
    async fn turn(
        &self,
        tenant: &TenantId,
        members: &[String],
        now_ms: i64,
        pass: &mut Pass,
    ) -> Result<(), StoreError> {
        let records = self.store.turning_ledgers(tenant, members).await?;
        let (mut turns, mut failed) = (Vec::new(), Vec::new());
        for (member, record) in members.iter().zip(records) {
            match record.map(|record| LedgerTurn::of(&record, now_ms, false)) {
                Ok(Ok(Some(turn))) => turns.push(turn),
                _ => failed.push(member.clone()),
            }
        }
        if !turns.is_empty() {
            let cause = Cause::turn();
            let turned = self
                .store
                .turn(Lane::Background, tenant, &turns, &cause)
                .await?;
            self.metrics.turned.inc_by(turned.count.unsigned_abs());
            pass.done += turned.count;
            failed.extend(turned.corrupt);
        }
        for member in failed {
            self.postpone(tenant.partition(), member, now_ms, pass)
                .await?;
        }
        Ok(())
    }

    /// Puts off an entry whose ledger cannot be turned, or the others would never be read.
    async fn postpone(
        &self,
        partition: Partition,
        member: String,
        now_ms: i64,
        pass: &mut Pass,
    ) -> Result<(), StoreError> {
        error!(
            member,
            "cannot turn the ledger `{member}`: a record is missing or unreadable"
        );
        pass.failed += 1;
        let index = self.store.keys().turns(partition);
        self.store
            .postpone(index, &member, now_ms + RETRY_AFTER_MS)
            .await
    }
}

// Events of turns come this long after they are due, unless very many are due at once.
lease_worker!(Turns: "turns", Duration::from_secs(1));
