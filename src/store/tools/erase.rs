//! Removes a whole deployment. Only for one that was made to be thrown away.

use redis::Cmd;
use tokio::time::Instant;

use crate::store::{Lane, Store, StoreError};

/// Keys that are looked at, and removed, at once.
const STEP_KEYS: u32 = 1_000;

impl Store {
    /// Removes every key under this store's prefix, on every node; returns how many.
    ///
    /// # Errors
    /// As for [`Store::query`]; then some keys are left.
    pub async fn erase(&self) -> Result<u64, StoreError> {
        let pattern = format!("{}:*", self.keys().prefix());
        let nodes = self.inner.connection.nodes(self.deadline()).await?;
        let mut removed = 0;
        for node in nodes {
            let mut cursor = "0".to_owned();
            loop {
                let deadline = Instant::now() + self.timeout();
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg(&pattern);
                scan.arg("COUNT").arg(STEP_KEYS);
                let reply = self.ask(&node, &scan, Lane::Background, deadline).await?;
                let (next, keys): (String, Vec<String>) =
                    redis::from_redis_value(reply).unwrap_or_default();
                removed += keys.len() as u64;
                let unlink = |key: String| (key.clone(), Cmd::unlink(key));
                let commands: Vec<_> = keys.into_iter().map(unlink).collect();
                self.query_all(&commands).await?;
                cursor = next;
                if cursor == "0" || cursor.is_empty() {
                    break;
                }
            }
        }
        Ok(removed)
    }
}
