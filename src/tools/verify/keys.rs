//! Scans keys, so that records are found that an index lacks.

use std::collections::BTreeSet;

use crate::domain::ids::Partition;
use crate::store::{Store, StoreError};

/// Scans the keys of these partitions, or of all, whose name after the partition matches `pattern`. Calls `found` with the
/// partition, the kind and the rest of each: `05f`, `rsvs` and `acme:20260101`; the rest may be empty.
pub(super) async fn scan(
    store: &Store,
    partitions: Option<&BTreeSet<Partition>>,
    pattern: &str,
    mut found: impl FnMut(Partition, &str, &str),
) -> Result<(), StoreError> {
    let prefix = format!("{}:{{", store.keys().prefix());
    let scans: Vec<_> = match partitions {
        None => vec![("*".to_owned(), None)],
        Some(partitions) => partitions
            .iter()
            .map(|partition| (partition.to_string(), Some(*partition)))
            .collect(),
    };
    for (partition, within) in scans {
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
