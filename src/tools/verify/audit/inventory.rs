//! Which chains there are, and of which days they have entries or seals: from the keys themselves, so that an entry which
//! was put where nobody looks is found as well.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ids::{Partition, TenantId};
use crate::store::{Day, Store, StoreError};

/// Whose chain, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub name: String,
    pub partition: Partition,
}

/// What a scan found of one chain.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Days with a log or with seals.
    pub days: BTreeSet<Day>,
}

/// Scans the keys of all nodes; of one partition's where only its tenants are asked for.
pub(super) async fn take(
    store: &Store,
    names: &[String],
) -> Result<BTreeMap<Place, Found>, StoreError> {
    let prefix = format!("{}:{{", store.keys().prefix());
    let homes: Option<BTreeSet<Partition>> = names
        .iter()
        .map(|name| Some(TenantId::parse(name)?.partition()))
        .collect();
    // `audit`, `chain` and `seals`: one scan, and little else comes along.
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
                sort_in(
                    &mut chains,
                    key.strip_prefix(&prefix).unwrap_or_default(),
                    names,
                );
            })
            .await?;
    }
    Ok(chains)
}

/// Takes a key without its prefix: `05f}:audit:acme:20260101`.
fn sort_in(chains: &mut BTreeMap<Place, Found>, key: &str, names: &[String]) -> Option<()> {
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
    let place = Place {
        name: name.to_owned(),
        partition: Partition::parse(partition)?,
    };
    if names.is_empty() || names.contains(&place.name) {
        chains.entry(place).or_default().days.extend(day);
    }
    Some(())
}
