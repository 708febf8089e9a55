//! The next due time of many partitions at once, and Redis's clocks.

use tokio::time::Instant;

use crate::domain::ids::Partition;
use crate::store::calls::of_reachable_nodes;
use crate::store::records::{command, read_or_default};
use crate::store::{Keys, Lane, OnFailure, Store, StoreError};

/// A member of an index by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// A tenant, or whatever the index holds.
    pub member: String,
    /// When it is due, in milliseconds.
    pub at_ms: i64,
}

/// The error for a member of an index that names nothing.
pub(crate) fn unreadable(member: &str) -> StoreError {
    StoreError::ErrorReply {
        code: "MEMBER".to_owned(),
        detail: format!("`{member}` names nothing of this index"),
    }
}

impl Store {
    /// The first `rows` members, by time, of an index in each partition; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn poll(
        &self,
        index: fn(&Keys, Partition) -> String,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let last = i64::try_from(rows).unwrap_or(i64::MAX) - 1;
        self.poll_range(index, partitions, (0, last)).await
    }

    /// The members from one rank to another, by time, of an index in each partition; negative ranks count from the last one.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn poll_range(
        &self,
        index: fn(&Keys, Partition) -> String,
        partitions: &[Partition],
        (first, last): (i64, i64),
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let range = (first, last, "WITHSCORES");
        let read = |p: &Partition| command("ZRANGE", index(self.keys(), *p), range);
        let found = self.read_each(OnFailure::Skip, partitions.iter().map(read));
        let due = |(member, score): (String, f64)| Due {
            member,
            at_ms: score as i64,
        };
        let members = |found: Result<Vec<_>, _>| Some(found.ok()?.into_iter().map(due).collect());
        Ok(found.await?.into_iter().map(members).collect())
    }

    /// As [`Store::postpone`] for many: the key of an index, a member, and when it is due next. Those that cannot be noted stay due.
    ///
    /// # Errors
    /// The first [`StoreError`], after all were tried.
    pub(crate) async fn postpone_each(
        &self,
        due: Vec<(String, String, i64)>,
    ) -> Result<(), StoreError> {
        let note = |(key, member, at_ms)| command("ZADD", key, ("XX", at_ms, member));
        let noted = self.read_each::<i64>(OnFailure::Skip, due.into_iter().map(note));
        let mut noted = noted.await?.into_iter();
        noted.try_for_each(|noted| noted.map(drop))
    }

    /// Notes in an index by time that `member` is due at a later time, if it is there at all.
    pub async fn postpone(
        &self,
        key: String,
        member: &str,
        until_ms: i64,
    ) -> Result<(), StoreError> {
        let added = command("ZADD", key, ("XX", until_ms, member));
        self.write(added).await
    }

    /// What each node that holds data and answers takes the time to be, in milliseconds; with the node's address.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn node_times(&self) -> Result<Vec<(String, i64)>, StoreError> {
        let sent = Instant::now();
        let time = redis::cmd("TIME");
        let replies = self.send_to_nodes(Lane::Background, &time, self.timeout());
        let replies = of_reachable_nodes(replies.await?)?;
        let mut times = Vec::with_capacity(replies.len());
        for (address, reply) in replies {
            let parts: Vec<i64> = read_or_default(reply);
            if let [seconds, micros] = parts[..] {
                times.push((address, seconds * 1000 + micros / 1000));
            }
        }
        if let Some((_, time_ms)) = times.first() {
            self.clock().observe(sent, Instant::now(), *time_ms);
        }
        Ok(times)
    }
}
