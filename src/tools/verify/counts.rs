//! Verifies the counts of the partitions, which the overview adds up. Because the service may run meanwhile, a difference is
//! reported only when the counts did not change while the records were read.

use super::ATTEMPTS;
use super::inventory::Inventory;
use super::report::{Difference, Report};
use crate::domain::ids::{Partition, TenantId};
use crate::store::admin::overview::Counts;
use crate::store::{Store, StoreError};

/// Verifies all partitions with counts or tenants.
pub(super) async fn verify(
    store: &Store,
    inventory: &Inventory,
    report: &mut Report,
) -> Result<(), StoreError> {
    let mut partitions = inventory.counted.clone();
    partitions.extend(inventory.tenants.keys().map(TenantId::partition));
    // The partition of the operator's own records.
    partitions.insert(Partition::FIRST);
    for partition in partitions {
        let mut last = None;
        for attempt in 1..=ATTEMPTS {
            let before = store.counts_of(partition).await?;
            let counted = store.recount(partition).await?;
            if before == counted {
                break;
            }
            let is_stable = before == store.counts_of(partition).await?;
            if is_stable && last.as_ref() == Some(&counted) {
                report
                    .differences
                    .push(difference(partition, &before, &counted));
                break;
            }
            if attempt == ATTEMPTS {
                report.unverified.push(format!("the counts of {partition}"));
            }
            last = is_stable.then_some(counted);
        }
    }
    Ok(())
}

fn difference(partition: Partition, stored: &Counts, counted: &Counts) -> Difference {
    let fields = stored
        .keys()
        .chain(counted.keys().filter(|field| !stored.contains_key(*field)));
    let sentence = |field: &String| {
        let of = |counts: &Counts| counts.get(field).copied().unwrap_or(0);
        let (stored, counted) = (of(stored), of(counted));
        (stored != counted).then(|| format!("{field} is {stored}, the records give {counted}"))
    };
    Difference {
        tenant: "*".to_owned(),
        what: "counts".to_owned(),
        id: partition.to_string(),
        detail: fields.filter_map(sentence).collect::<Vec<_>>().join("; "),
    }
}
