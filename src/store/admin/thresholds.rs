//! `copy_thresholds.lua`: the thresholds that the operator's subscriptions watch, brought to every partition.

use crate::domain::ids::Partition;
use crate::driver::reply::Reply;
use crate::store::scripts::COPY_THRESHOLDS;
use crate::store::{Arg, Store, StoreError};

/// Tenants of a partition that are written at a time.
const TENANTS: i64 = 500;

/// A union of thresholds that every partition must learn of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Rises with each change; partitions that have a later one ignore it.
    pub version: i64,
    /// In millionths, ascending, blanks between.
    pub union: String,
}

impl Watched {
    /// The next two elements; `None` where the first is empty.
    pub(in crate::store) fn read(reply: &mut Reply) -> Result<Option<Self>, StoreError> {
        let (version, union) = (reply.next_str()?, reply.next_str()?);
        if version.is_empty() {
            return Ok(None);
        }
        let version = version.parse().map_err(|_| reply.unknown(&version))?;
        Ok(Some(Self { version, union }))
    }
}

impl Store {
    /// What the operator's subscriptions watch now.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn watched(&self) -> Result<Option<Watched>, StoreError> {
        let key = self.keys().thresholds(Partition::FIRST);
        let mut read = redis::cmd("HMGET");
        read.arg(&key).arg("source_version").arg("source_union");
        let reply = self.query(&key, &read).await?;
        let fields: Vec<Option<String>> = redis::from_redis_value(reply).unwrap_or_default();
        let [Some(version), union] = &fields[..] else {
            return Ok(None);
        };
        let version = version.parse().unwrap_or(0);
        let union = union.clone().unwrap_or_default();
        Ok(Some(Watched { version, union }))
    }

    /// Which of these partitions have not all of a version.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn behind(
        &self,
        partitions: &[Partition],
        version: i64,
    ) -> Result<Vec<Partition>, StoreError> {
        let command = |partition: &Partition| {
            let key = self.keys().thresholds(*partition);
            let mut read = redis::cmd("HGET");
            read.arg(&key).arg("version");
            (key, read)
        };
        let commands: Vec<_> = partitions.iter().map(command).collect();
        let replies = self.query_all(&commands).await?;
        let stored = replies.into_iter().map(|reply| {
            let text: Option<String> = redis::from_redis_value(reply).unwrap_or_default();
            text.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0)
        });
        let pairs = partitions.iter().zip(stored);
        let behind = pairs.filter(|(_, stored)| *stored < version);
        Ok(behind.map(|(partition, _)| *partition).collect())
    }

    /// Brings a union to partitions; answers those that could not be reached.
    ///
    /// # Errors
    /// [`StoreError`] when the deployment cannot be read.
    pub async fn copy_thresholds(
        &self,
        partitions: &[Partition],
        watched: &Watched,
    ) -> Result<Vec<Partition>, StoreError> {
        let (mut left, mut missed) = (partitions.to_vec(), Vec::new());
        let args = [
            Arg::from(watched.version),
            Arg::from(&watched.union),
            Arg::from(TENANTS),
        ];
        while !left.is_empty() {
            let keys: Vec<_> = left.iter().map(|p| self.keys().thresholds(*p)).collect();
            let replies = self.call_each(&COPY_THRESHOLDS, &keys, &args).await?;
            let mut more = Vec::new();
            for (partition, reply) in left.into_iter().zip(replies) {
                let word = reply.map(|reply| Reply::new(&COPY_THRESHOLDS, reply)?.next_str());
                match word {
                    Some(Ok(word)) if word == "copied" => {}
                    Some(Ok(word)) if word == "more" => more.push(partition),
                    _ => missed.push(partition),
                }
            }
            left = more;
        }
        Ok(missed)
    }
}
