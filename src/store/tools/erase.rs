//! Removes all data of a deployment, for benchmarks and tests.

use redis::Cmd;

use crate::store::{Store, StoreError};

/// Keys that are removed at once.
const STEP_KEYS: usize = 1_000;

impl Store {
    /// Removes every key under this store's prefix, on every node.
    ///
    /// # Errors
    /// As for [`Store::query`]; then some keys are left.
    pub async fn erase(&self) -> Result<(), StoreError> {
        let pattern = format!("{}:*", self.keys().prefix());
        let mut commands = Vec::new();
        let unlink = |key: &str| commands.push((key.to_owned(), Cmd::unlink(key)));
        self.scan(&pattern, None, unlink).await?;
        // The deployment's record comes last, since nothing is sent without it.
        let meta = self.keys().meta();
        commands.sort_by_key(|(key, _)| *key == meta);
        for step in commands.chunks(STEP_KEYS) {
            self.query_all(step).await?;
        }
        Ok(())
    }
}
