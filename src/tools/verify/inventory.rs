//! What there is to verify, as the keys show it: so records are found that an index lacks, and entries in an unexpected log.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ids::{Partition, TenantId};
use crate::store::{Day, Store, StoreError};

/// The kinds of keys `audit`, `chain` and `seals`, found by one scan.
const CHAIN_KINDS: &str = "[acs][uhe][da][il]*";

/// The tenants and partitions of a deployment.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Redis's time before the scan, in milliseconds.
    pub read_ms: i64,
    /// The days with records of each tenant.
    pub tenants: BTreeMap<TenantId, BTreeSet<Day>>,
    /// Partitions with reservations in quarantine.
    pub quarantines: BTreeSet<Partition>,
    /// Partitions with counts.
    pub counted: BTreeSet<Partition>,
}

/// Identifies an audit chain: the tenant, or the name for no tenant, and the partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChainId {
    pub name: String,
    pub partition: Partition,
}

impl Inventory {
    /// Scans the keys of one tenant's partition, or of all.
    pub(super) async fn read(store: &Store, only: Option<&TenantId>) -> Result<Self, StoreError> {
        store.node_times().await?;
        let mut inventory = Self {
            read_ms: store.clock().now_ms(),
            ..Self::default()
        };
        let partition = only.map(|tenant| BTreeSet::from([tenant.partition()]));
        let add = |partition, kind: &str, rest: &str| match kind {
            "quarantine" => drop(inventory.quarantines.insert(partition)),
            "counts" => drop(inventory.counted.insert(partition)),
            "rsvs" | "usage_events" | "budget" | "budgets" | "due" | "tenant" => {
                let (tenant, day) = rest.split_once(':').unwrap_or((rest, ""));
                let tenant = TenantId::parse(tenant).filter(|tenant| {
                    tenant.partition() == partition && only.is_none_or(|only| only == tenant)
                });
                let Some(tenant) = tenant else { return };
                let days = inventory.tenants.entry(tenant).or_default();
                if ["rsvs", "usage_events"].contains(&kind) {
                    days.extend(Day::parse(day));
                }
            }
            _ => {}
        };
        scan(store, partition.as_ref(), "*", add).await?;
        if let Some(tenant) = only {
            inventory.tenants.entry(tenant.clone()).or_default();
        }
        Ok(inventory)
    }
}

/// Finds the chains of these names, or all, with the days that have a log or seals. Scans only the partitions of `names` when
/// all are tenants.
pub(super) async fn chains(
    store: &Store,
    names: &[String],
) -> Result<BTreeMap<ChainId, BTreeSet<Day>>, StoreError> {
    let partition = |name: &String| Some(TenantId::parse(name)?.partition());
    let partitions: Option<BTreeSet<_>> = names.iter().map(partition).collect();
    let partitions = partitions.filter(|partitions| !partitions.is_empty());
    let mut chains: BTreeMap<ChainId, BTreeSet<Day>> = BTreeMap::new();
    let add = |partition, kind: &str, rest: &str| {
        let log = rest.rsplit_once(':');
        let log = log.and_then(|(name, day)| Some((name, Day::parse(day)?)));
        let (name, day) = match (kind, log) {
            ("chain", _) => (rest.to_owned(), None),
            ("audit" | "seals", Some((name, day))) => (name.to_owned(), Some(day)),
            _ => return,
        };
        if names.is_empty() || names.contains(&name) {
            let days = chains.entry(ChainId { name, partition }).or_default();
            days.extend(day);
        }
    };
    scan(store, partitions.as_ref(), CHAIN_KINDS, add).await?;
    Ok(chains)
}

/// Scans the keys of these partitions, or of all, whose name after the partition matches `pattern`. Calls `found` with the
/// partition, the kind and the rest of each: `05f`, `rsvs` and `acme:20260101`; the rest may be empty.
async fn scan(
    store: &Store,
    partitions: Option<&BTreeSet<Partition>>,
    pattern: &str,
    mut found: impl FnMut(Partition, &str, &str),
) -> Result<(), StoreError> {
    let prefix = format!("{}:{{", store.keys().prefix());
    let within: Vec<_> = match partitions {
        None => vec![None],
        Some(partitions) => partitions.iter().copied().map(Some).collect(),
    };
    for within in within {
        let partition = within.map_or_else(|| "*".to_owned(), |within| within.to_string());
        let pattern = format!("{prefix}{partition}}}:{pattern}");
        let add = |key: &str| {
            let key = key.strip_prefix(&prefix).unwrap_or_default();
            if let Some((partition, name)) = key.split_once("}:")
                && let Some(partition) = Partition::parse(partition)
            {
                let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
                found(partition, kind, rest);
            }
        };
        store.scan(&pattern, within, add).await?;
    }
    Ok(())
}
