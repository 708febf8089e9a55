//! Finds the tenants and the days with records from the keys themselves, so that an index that lost something is found.

use std::collections::{BTreeMap, BTreeSet};

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

/// Everything that the scan found.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Redis's time before the scan, in milliseconds.
    pub taken_ms: i64,
    pub tenants: BTreeMap<TenantId, RecordDays>,
    /// Partitions with reservations in quarantine.
    pub quarantines: BTreeSet<Partition>,
    /// Partitions with counts.
    pub counted: BTreeSet<Partition>,
}

impl Inventory {
    /// Scans the keys of one tenant's partition, or of all.
    pub(super) async fn take(store: &Store, tenant: Option<&TenantId>) -> Result<Self, StoreError> {
        store.node_times().await?;
        let mut inventory = Self {
            taken_ms: store.clock().now_ms(),
            ..Self::default()
        };
        let prefix = format!("{}:{{", store.keys().prefix());
        let within = tenant.map(TenantId::partition);
        let pattern = match within {
            Some(partition) => format!("{prefix}{partition}}}:*"),
            None => format!("{prefix}*"),
        };
        store
            .scan(&pattern, within, |key| {
                inventory.add(key.strip_prefix(&prefix).unwrap_or_default(), tenant);
            })
            .await?;
        if let Some(tenant) = tenant {
            inventory.tenants.entry(tenant.clone()).or_default();
        }
        Ok(inventory)
    }

    /// Adds a key without its prefix: `05f}:rsvs:acme:20260101`.
    fn add(&mut self, key: &str, wanted: Option<&TenantId>) {
        let Some((partition, rest)) = key.split_once("}:") else {
            return;
        };
        let Some(partition) = Partition::parse(partition) else {
            return;
        };
        if rest == "quarantine" {
            self.quarantines.insert(partition);
            return;
        }
        if rest == "counts" {
            self.counted.insert(partition);
            return;
        }
        let Some((kind, rest)) = rest.split_once(':') else {
            return;
        };
        let mut names = rest.splitn(2, ':');
        let Some(tenant) = names.next().and_then(TenantId::parse) else {
            return;
        };
        let is_wanted =
            tenant.partition() == partition && wanted.is_none_or(|wanted| *wanted == tenant);
        if !is_wanted
            || !matches!(
                kind,
                "rsvs" | "usage_events" | "budget" | "budgets" | "due" | "tenant"
            )
        {
            return;
        }
        let days = self.tenants.entry(tenant).or_default();
        let day = names.next().and_then(Day::parse);
        match (kind, day) {
            ("rsvs", Some(day)) => drop(days.reservations.insert(day)),
            ("usage_events", Some(day)) => drop(days.usage_events.insert(day)),
            _ => {}
        }
    }
}
