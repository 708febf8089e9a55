//! What is due next in many partitions at once, and Redis's clocks.

use redis::{Cmd, Value};
use tokio::time::Instant;
use tracing::error;

use super::{Store, StoreError};

/// A member of an index by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// A tenant, or whatever the index holds.
    pub member: String,
    /// When it is due, in milliseconds.
    pub at_ms: i64,
}

impl Store {
    /// The first `rows` members of each of many sorted sets, by score; one pipeline per node.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(super) async fn poll(
        &self,
        keys: impl Iterator<Item = String>,
        rows: usize,
    ) -> Result<Vec<Vec<Due>>, StoreError> {
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
        match self.query_all(&commands).await {
            Ok(replies) => Ok(replies.into_iter().map(members).collect()),
            Err(StoreError::Refused { .. }) => self.poll_singly(&commands).await,
            Err(error) => Err(error),
        }
    }

    /// Where one of the keys holds something else, the others are read all the same.
    async fn poll_singly(&self, commands: &[(String, Cmd)]) -> Result<Vec<Vec<Due>>, StoreError> {
        let mut found = Vec::with_capacity(commands.len());
        for (key, command) in commands {
            found.push(match self.query(key, command).await {
                Ok(reply) => members(reply),
                Err(StoreError::Refused { code, detail }) => {
                    error!(key, "the key `{key}` cannot be read, what it should hold is not done: {code} {detail}");
                    Vec::new()
                }
                Err(error) => return Err(error),
            });
        }
        Ok(found)
    }

    /// What each node that holds data takes the time to be, in milliseconds; with the node's address.
    ///
    /// # Errors
    /// [`StoreError`] when a node does not answer.
    pub async fn node_times(&self) -> Result<Vec<(String, i64)>, StoreError> {
        let sent = Instant::now();
        let time = redis::cmd("TIME");
        let replies = self.everywhere(&time, sent + self.timeout()).await?;
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
