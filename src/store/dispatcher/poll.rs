//! What is due next in many partitions at once, and Redis's clocks.

use redis::{Cmd, Value};
use tokio::time::Instant;

use crate::store::{Store, StoreError};

/// A member of an index by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// A tenant, or whatever the index holds.
    pub member: String,
    /// When it is due, in milliseconds.
    pub at_ms: i64,
}

impl Store {
    /// The first `rows` members of each of many sorted sets, by score; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub(in crate::store) async fn poll(
        &self,
        keys: impl Iterator<Item = String>,
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let command = |key: String| {
            let mut command = redis::cmd("ZRANGE");
            command
                .arg(&key)
                .arg(0)
                .arg(rows.saturating_sub(1))
                .arg("WITHSCORES");
            (key, command)
        };
        let commands: Vec<(String, Cmd)> = keys.map(command).collect();
        let replies = self.query_reachable(&commands).await?;
        Ok(replies
            .into_iter()
            .map(|reply| reply.map(members))
            .collect())
    }

    /// What each node that holds data and answers takes the time to be, in milliseconds; with the node's address.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn node_times(&self) -> Result<Vec<(String, i64)>, StoreError> {
        let sent = Instant::now();
        let time = redis::cmd("TIME");
        let deadline = sent + self.timeout();
        let replies = self.everywhere_reachable(&time, deadline).await?;
        let mut times = Vec::with_capacity(replies.len());
        for (address, reply) in replies {
            let parts: Vec<i64> = redis::from_redis_value(reply).unwrap_or_default();
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

/// Names and scores, in turn. What is not of that form counts as nothing due.
fn members(reply: Value) -> Vec<Due> {
    let pairs: Vec<(String, f64)> = redis::from_redis_value(reply).unwrap_or_default();
    let due = |(member, score): (String, f64)| Due {
        member,
        at_ms: score as i64,
    };
    pairs.into_iter().map(due).collect()
}
