//! Which tenants there are, and of which days they have records: from the keys themselves, so that what an index lost is
//! found as well.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ids::{Partition, TenantId};
use crate::store::{Day, Store, StoreError};

/// What a scan found of one tenant.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Days with reservations.
    pub reservations: BTreeSet<Day>,
    /// Days with booked events.
    pub posts: BTreeSet<Day>,
}

/// Everything that a scan found.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Redis's time before the scan, in milliseconds: days that begin later may have come since.
    pub taken_ms: i64,
    pub tenants: BTreeMap<TenantId, Found>,
    /// Partitions with reservations in quarantine.
    pub quarantines: BTreeSet<Partition>,
    /// Partitions that count what they have.
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
                inventory.sort_in(key.strip_prefix(&prefix).unwrap_or_default(), tenant);
            })
            .await?;
        if let Some(tenant) = tenant {
            inventory.tenants.entry(tenant.clone()).or_default();
        }
        Ok(inventory)
    }

    /// Takes a key without its prefix: `05f}:rsvs:acme:20260101`.
    fn sort_in(&mut self, key: &str, wanted: Option<&TenantId>) {
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
        let ours = tenant.partition() == partition && wanted.is_none_or(|wanted| *wanted == tenant);
        if !ours
            || !matches!(
                kind,
                "rsvs" | "usage_events" | "budget" | "budgets" | "due" | "tenant"
            )
        {
            return;
        }
        let found = self.tenants.entry(tenant).or_default();
        let day = names.next().and_then(Day::parse);
        match (kind, day) {
            ("rsvs", Some(day)) => drop(found.reservations.insert(day)),
            ("usage_events", Some(day)) => drop(found.posts.insert(day)),
            _ => {}
        }
    }
}
