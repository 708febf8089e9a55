//! How short of memory Redis is. Each process looks now and then, so that no request has to ask.

use std::time::Duration;

use super::{Keys, Store, StoreError};
use crate::domain::ids::Partition;
use crate::driver::memory::{MemoryShare, MemoryStep};
use crate::driver::node::Lane;

/// The node that uses the largest share of its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullestNode {
    /// Its address.
    pub node: String,
    /// The used memory.
    pub share: MemoryShare,
}

impl Store {
    /// The share of the fullest node, as last read.
    pub fn fullest_share(&self) -> MemoryShare {
        self.inner.fullest.get()
    }

    /// How short of memory the node of a partition is, as last seen.
    pub fn memory_step(&self, partition: Partition) -> MemoryStep {
        MemoryStep::at(self.memory_share(partition))
    }

    /// The share of the node of a partition, as last seen.
    pub(super) fn memory_share(&self, partition: Partition) -> MemoryShare {
        self.inner.connection.memory_share(Keys::slot(partition))
    }

    /// Asks each node how much of its memory it uses, and remembers it; while that is much, measures what tenants store. `None`
    /// where no node can be asked; what was seen before stays then.
    pub async fn look_at_memory(&self, limit: Duration) -> Option<FullestNode> {
        let infos = self.memory_infos(limit).await.ok()?;
        self.look_at_stocks().await;
        let shares = infos.iter().map(|(node, info)| FullestNode {
            node: node.clone(),
            share: MemoryShare::of_info(info),
        });
        shares.max_by_key(|fullest| fullest.share)
    }

    /// `INFO memory server persistence` of each node that replies, with its address; what it says is remembered, and an append-only
    /// file rewritten where that is due.
    ///
    /// # Errors
    /// [`StoreError`] when the nodes are not known.
    pub(super) async fn memory_infos(
        &self,
        limit: Duration,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let mut command = redis::cmd("INFO");
        command.arg("memory").arg("server").arg("persistence");
        let limit = limit.min(self.timeout());
        let replies = self
            .send_to_nodes(Lane::Background, &command, limit)
            .await?;
        self.forget_files_of_others(&replies);
        let mut infos = Vec::new();
        for (node, reply) in replies {
            let Ok(reply) = reply.map(redis::from_redis_value::<String>) else {
                continue;
            };
            let info = reply.unwrap_or_default();
            node.memory.note(MemoryShare::of_info(&info));
            self.note_run_id(&node.address, &info);
            self.rewrite_file(&node, &info, limit).await;
            infos.push((node.address.clone(), info));
        }
        let shares = infos.iter().map(|(_, info)| MemoryShare::of_info(info));
        if let Some(fullest) = shares.max() {
            self.inner.fullest.note(fullest);
            self.metrics().memory_used.set(fullest.ratio());
        }
        Ok(infos)
    }
}
