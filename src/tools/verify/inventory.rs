//! The tenants and days with records, as their keys show them.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::scan;
use crate::domain::ids::{Partition, TenantId};
use crate::store::{Day, Store, StoreError};

/// The days with records of one tenant.
#[derive(Debug, Default)]
pub(super) struct RecordDays {
    /// Days with reservations.
    pub reservations: BTreeSet<Day>,
    /// Days with usage events.
    pub usage_events: BTreeSet<Day>,
}

/// The tenants and partitions of a deployment.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Redis's time before the scan, in milliseconds.
    pub read_ms: i64,
    pub tenants: BTreeMap<TenantId, RecordDays>,
    /// Partitions with reservations in quarantine.
    pub quarantines: BTreeSet<Partition>,
    /// Partitions with counts.
    pub counted: BTreeSet<Partition>,
}

impl Inventory {
    /// Scans the keys of one tenant's partition, or of all.
    pub(super) async fn read(store: &Store, tenant: Option<&TenantId>) -> Result<Self, StoreError> {
        store.node_times().await?;
        let mut inventory = Self {
            read_ms: store.clock().now_ms(),
            ..Self::default()
        };
        let partition = tenant.map(|tenant| BTreeSet::from([tenant.partition()]));
        let add = |partition, kind: &str, rest: &str| match kind {
            "quarantine" => drop(inventory.quarantines.insert(partition)),
            "counts" => drop(inventory.counted.insert(partition)),
            "rsvs" | "usage_events" | "budget" | "budgets" | "due" | "tenant" => {
                inventory.add(partition, kind, rest, tenant);
            }
            _ => {}
        };
        scan(store, partition.as_ref(), "*", add).await?;
        if let Some(tenant) = tenant {
            inventory.tenants.entry(tenant.clone()).or_default();
        }
        Ok(inventory)
    }

    /// Adds a key of a tenant: its kind, and `acme` or `acme:20260101`.
    fn add(&mut self, partition: Partition, kind: &str, rest: &str, only: Option<&TenantId>) {
        let (tenant, day) = rest.split_once(':').unwrap_or((rest, ""));
        let Some(tenant) = TenantId::parse(tenant) else {
            return;
        };
        if tenant.partition() != partition || only.is_some_and(|only| *only != tenant) {
            return;
        }
        let days = self.tenants.entry(tenant).or_default();
        match kind {
            "rsvs" => days.reservations.extend(Day::parse(day)),
            "usage_events" => days.usage_events.extend(Day::parse(day)),
            _ => {}
        }
    }
}
