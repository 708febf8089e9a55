//! Many commands at once: one pipeline per node, to all nodes at the same time, so that a slow node does not delay the
//! others.

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use super::{Store, StoreError};
use crate::driver::node::{Lane, Node};
use crate::driver::slot;

impl Store {
    /// Sends each command to the node that owns its key. The replies come in the order of `commands`, error replies
    /// included; `None` where a node did not reply, or a slot has no owner.
    ///
    /// # Errors
    /// [`StoreError`] when the deployment cannot be read, or the request has no time left.
    pub(super) async fn pipelines(
        &self,
        commands: &[(String, Cmd)],
    ) -> Result<Vec<Option<Value>>, StoreError> {
        self.deployment().await?;
        self.pipelines_before_start(commands).await
    }

    /// The same before the deployment is known.
    pub(super) async fn pipelines_before_start(
        &self,
        commands: &[(String, Cmd)],
    ) -> Result<Vec<Option<Value>>, StoreError> {
        let connection = &self.inner.connection;
        let routing = self.begin_call()?;
        let mut batches: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
        let mut until = routing.deadline;
        for (index, (key, _)) in commands.iter().enumerate() {
            let Ok(node) = connection.route(slot::of(key.as_bytes()), until).await else {
                // The deadline is over, so do not wait for other owners.
                until = Instant::now();
                continue;
            };
            let known = batches
                .iter_mut()
                .find(|(other, _)| Arc::ptr_eq(other, &node));
            match known {
                Some((_, batch)) => batch.push(index),
                None => batches.push((node, vec![index])),
            }
        }
        drop(routing);
        let sending = self.begin_call()?;
        let deadline = sending.deadline;
        let mut sent = JoinSet::new();
        for (node, batch) in batches {
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for index in &batch {
                pipeline.add_command(commands[*index].1.clone());
            }
            sent.spawn(async move {
                let replies = match node.open(Lane::Background, deadline).await {
                    Ok(open) => open.send_all(&pipeline, deadline).await,
                    Err(error) => Err(error),
                };
                (node, batch, replies)
            });
        }
        let mut replies = vec![None; commands.len()];
        while let Some(joined) = sent.join_next().await {
            let (node, batch, sent) = joined.expect("a pipeline does not panic");
            match sent {
                Ok(sent) => {
                    for (index, reply) in batch.into_iter().zip(sent) {
                        replies[index] = Some(reply);
                    }
                }
                Err(_) => {
                    connection.distrust(&node);
                    debug!(redis.address = %node.address, "Redis at {} did not reply to {} commands", node.address, batch.len());
                }
            }
        }
        Ok(replies)
    }

    /// Whether one node has both keys, so that one clock has timed what is in them.
    ///
    /// # Errors
    /// [`StoreError`] when the owner of a slot is not known in time.
    pub(crate) async fn share_a_node(&self, one: &str, other: &str) -> Result<bool, StoreError> {
        let routing = self.begin_call()?;
        let connection = &self.inner.connection;
        let one = connection.route(slot::of(one.as_bytes()), routing.deadline);
        let one = one.await?;
        let other = connection.route(slot::of(other.as_bytes()), routing.deadline);
        Ok(Arc::ptr_eq(&one, &other.await?))
    }
}
