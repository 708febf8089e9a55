//! Finds the audit chains and their days from the keys themselves, so that an entry in an unexpected log is found.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ids::{Partition, TenantId};
use crate::store::{Day, Store, StoreError};

/// Identifies a chain: the tenant, or the name for no tenant, and the partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChainId {
    pub name: String,
    pub partition: Partition,
}

/// The chains of these names, or all, with the days that have a log or seals. Scans only the partitions of `names` when
/// all are tenants.
pub(super) async fn take(
    store: &Store,
    names: &[String],
) -> Result<BTreeMap<ChainId, BTreeSet<Day>>, StoreError> {
    let prefix = format!("{}:{{", store.keys().prefix());
    let homes: Option<BTreeSet<Partition>> = names
        .iter()
        .map(|name| Some(TenantId::parse(name)?.partition()))
        .collect();
    // `audit`, `chain` and `seals` in one scan.
    let kinds = "[acs][uhe][da][il]*";
    let mut scans = vec![(format!("{prefix}*}}:{kinds}"), None)];
    if let Some(homes) = homes.filter(|homes| !homes.is_empty()) {
        let one = |home: Partition| (format!("{prefix}{home}}}:{kinds}"), Some(home));
        scans = homes.into_iter().map(one).collect();
    }
    let mut chains = BTreeMap::new();
    for (pattern, within) in scans {
        store
            .scan(&pattern, within, |key| {
                add(
                    &mut chains,
                    key.strip_prefix(&prefix).unwrap_or_default(),
                    names,
                );
            })
            .await?;
    }
    Ok(chains)
}

/// Adds a key without its prefix: `05f}:audit:acme:20260101`.
fn add(chains: &mut BTreeMap<ChainId, BTreeSet<Day>>, key: &str, names: &[String]) -> Option<()> {
    let (partition, rest) = key.split_once("}:")?;
    let (kind, rest) = rest.split_once(':')?;
    let (name, day) = match kind {
        "chain" => (rest, None),
        "audit" | "seals" => {
            let (name, day) = rest.rsplit_once(':')?;
            (name, Some(Day::parse(day)?))
        }
        _ => return None,
    };
    let id = ChainId {
        name: name.to_owned(),
        partition: Partition::parse(partition)?,
    };
    if names.is_empty() || names.contains(&id.name) {
        chains.entry(id).or_default().extend(day);
    }
    Some(())
}
