//! The audit chains and their days, as their keys show them, so that an entry in an unexpected log is found.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ids::{Partition, TenantId};
use crate::store::{Day, Store, StoreError};
use crate::tools::verify::keys::scan;

/// The kinds of keys `audit`, `chain` and `seals`, found by one scan.
const KINDS: &str = "[acs][uhe][da][il]*";

/// Identifies a chain: the tenant, or the name for no tenant, and the partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChainId {
    pub name: String,
    pub partition: Partition,
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
        let Some((name, day)) = name_and_day(kind, rest) else {
            return;
        };
        let name = name.to_owned();
        if names.is_empty() || names.contains(&name) {
            let days = chains.entry(ChainId { name, partition }).or_default();
            days.extend(day);
        }
    };
    scan(store, partitions.as_ref(), KINDS, add).await?;
    Ok(chains)
}

/// Reads the rest of a key of a chain: `acme` or `acme:20260101`.
fn name_and_day<'a>(kind: &str, rest: &'a str) -> Option<(&'a str, Option<Day>)> {
    match kind {
        "chain" => Some((rest, None)),
        "audit" | "seals" => {
            let (name, day) = rest.rsplit_once(':')?;
            Some((name, Some(Day::parse(day)?)))
        }
        _ => None,
    }
}
