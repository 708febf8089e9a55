//! Reads indexes and scans keys, so that a verification of the ledgers finds all records.

use tokio::time::Instant;

use crate::domain::ids::Partition;
use crate::store::records::{command, read_or_default};
use crate::store::{Keys, Lane, Store, StoreError};

impl Store {
    /// Members of a sorted set between two scores, both included, in order and with their scores.
    pub async fn scores_between(
        &self,
        key: &str,
        from: i64,
        to: i64,
        rows: usize,
    ) -> Result<Vec<(String, i64)>, StoreError> {
        let range = (from, to, "BYSCORE", "LIMIT", 0, rows, "WITHSCORES");
        let read = command("ZRANGE", key.to_owned(), range);
        let pairs: Vec<(String, f64)> = self.read(read).await?;
        let pairs = pairs.into_iter().map(|(id, score)| (id, score as i64));
        Ok(pairs.collect())
    }

    /// The highest score of a sorted set, if it has any member.
    pub async fn last_score(&self, key: &str) -> Result<Option<i64>, StoreError> {
        let read = command("ZRANGE", key.to_owned(), (-1, -1, "WITHSCORES"));
        let pairs: Vec<(String, f64)> = self.read(read).await?;
        Ok(pairs.first().map(|(_, score)| *score as i64))
    }

    /// Members of a lexical sorted set, in order.
    pub async fn members_of(&self, key: &str) -> Result<Vec<String>, StoreError> {
        let all = command("ZRANGE", key.to_owned(), (0, -1));
        self.read(all).await
    }

    /// Visits every key that matches a glob pattern, on all nodes, or for a partition on its own. A key that is there all
    /// the time is visited at least once, unless its slot moves meanwhile.
    pub async fn scan(
        &self,
        pattern: &str,
        within: Option<Partition>,
        mut visit: impl FnMut(&str),
    ) -> Result<(), StoreError> {
        self.secret().await?;
        let connection = &self.inner.connection;
        let deadline = || Instant::now() + self.timeout();
        let nodes = match within {
            Some(partition) => vec![connection.route(Keys::slot(partition), deadline()).await?],
            None => connection.nodes(deadline()).await?,
        };
        for node in nodes {
            let mut cursor = 0_u64;
            loop {
                let mut command = redis::cmd("SCAN");
                command.arg((cursor, "MATCH", pattern, "COUNT", 1_000));
                let reply = connection.send_to(&node, Lane::Background, &command, deadline());
                let (next, found): (u64, Vec<String>) = read_or_default(reply.await?);
                found.iter().for_each(|key| visit(key));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}
