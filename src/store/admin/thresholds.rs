//! `copy_thresholds.lua`: the thresholds that the operator's subscriptions watch, brought to every partition.

use crate::domain::ids::Partition;
use crate::driver::reply::{FromReply, Reply};
use crate::store::records::command;
use crate::store::signature::signature;
use crate::store::{Store, StoreError};

signature! {
    /// Brings the thresholds that the operator's subscriptions watch to the tenants of one partition, some at a time. Repeating
    /// it is harmless, and an older version changes nothing.
    COPY_THRESHOLDS: CopyThresholds -> CopyThresholdsReply = "dispatcher/copy_thresholds", flags "allow-oom";
    names { partition: Partition }
    keys of partition { read tenants(); write thresholds(); }
    builds { read watch(); write tenant() }
    args {
        version: i64,
        /// Thresholds in millionths, ascending, then limits of rates; blanks between, or ''.
        union: &'a str,
        /// Tenants at a time.
        rows: i64,
    }
    replies { more: More, copied: Copied }
    writes "The thresholds of the partition and of its tenants."
}

/// Tenants of a partition that are written at a time.
const TENANTS: i64 = 500;

/// A union of thresholds that every partition must copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedThresholds {
    /// Rises with each change; partitions that have a later one ignore it.
    pub version: i64,
    /// Thresholds in millionths, ascending, then limits of rates; blanks between.
    pub union: String,
}

/// The version, empty for none, and the union.
impl FromReply for Option<WatchedThresholds> {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let (version, union): (Option<i64>, String) = FromReply::from_reply(reply)?;
        Ok(version.map(|version| WatchedThresholds { version, union }))
    }
}

impl Store {
    /// The thresholds that the operator's subscriptions watch now.
    pub async fn watched(&self) -> Result<Option<WatchedThresholds>, StoreError> {
        let key = self.keys().thresholds(Partition::FIRST);
        let read = command("HMGET", key, ("source_version", "source_union"));
        let (version, union): (Option<i64>, Option<String>) = self.read(read).await?;
        let union = union.unwrap_or_default();
        Ok(version.map(|version| WatchedThresholds { version, union }))
    }

    /// Those of these partitions that lack a version.
    pub async fn behind(
        &self,
        partitions: &[Partition],
        version: i64,
    ) -> Result<Vec<Partition>, StoreError> {
        let read = |p: &Partition| command("HGET", self.keys().thresholds(*p), "version");
        let stored: Vec<Option<i64>> = self.read_all(partitions.iter().map(read)).await?;
        let pairs = partitions.iter().zip(stored);
        let behind = pairs.filter(|(_, stored)| stored.unwrap_or(0) < version);
        Ok(behind.map(|(partition, _)| *partition).collect())
    }

    /// Copies a union to partitions; returns those that could not be reached.
    ///
    /// # Errors
    /// [`StoreError`] when the deployment cannot be read.
    pub async fn copy_thresholds(
        &self,
        partitions: &[Partition],
        watched: &WatchedThresholds,
    ) -> Result<Vec<Partition>, StoreError> {
        let (mut left, mut missed) = (partitions.to_vec(), Vec::new());
        while !left.is_empty() {
            let call = |partition: &Partition| CopyThresholds {
                partition: *partition,
                version: watched.version,
                union: &watched.union,
                rows: TENANTS,
            };
            let calls: Vec<_> = left.iter().map(call).collect();
            let replies = self.run_each(&calls).await?;
            let mut more = Vec::new();
            for (partition, reply) in left.into_iter().zip(replies) {
                match reply {
                    Ok(CopyThresholdsReply::Copied) => {}
                    Ok(CopyThresholdsReply::More) => more.push(partition),
                    _ => missed.push(partition),
                }
            }
            left = more;
        }
        Ok(missed)
    }
}
