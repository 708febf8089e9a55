//! Many commands at once: one pipeline per node, all nodes at the same time, so that one that is silent keeps no other
//! waiting.

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
    /// among them; `None` where a node did not answer, or a slot has no owner.
    ///
    /// # Errors
    /// [`StoreError`] when the deployment cannot be read, or the request has no time left.
    pub(super) async fn pipelines(
        &self,
        commands: &[(String, Cmd)],
    ) -> Result<Vec<Option<Value>>, StoreError> {
        self.deployment().await?;
        let connection = &self.inner.connection;
        let routing = self.turn()?;
        let mut batches: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
        let mut until = routing.deadline;
        for (index, (key, _)) in commands.iter().enumerate() {
            let Ok(node) = connection.route(slot::of(key.as_bytes()), until).await else {
                // Who owns it was asked in vain: that is not waited for again.
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
        let sending = self.turn()?;
        let deadline = sending.deadline;
        let mut sent = JoinSet::new();
        for (node, batch) in batches {
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for index in &batch {
                pipeline.add_command(commands[*index].1.clone());
            }
            sent.spawn(async move {
                let answers = match node.open(Lane::Background, deadline).await {
                    Ok(open) => open.send_all(&pipeline, deadline).await,
                    Err(silence) => Err(silence),
                };
                (node, batch, answers)
            });
        }
        let mut replies = vec![None; commands.len()];
        while let Some(joined) = sent.join_next().await {
            let (node, batch, answers) = joined.expect("a pipeline does not panic");
            match answers {
                Ok(answers) => {
                    for (index, answer) in batch.into_iter().zip(answers) {
                        replies[index] = Some(answer);
                    }
                }
                Err(_) => {
                    connection.distrust(&node);
                    debug!(redis.address = %node.address, "Redis at {} did not answer {} commands", node.address, batch.len());
                }
            }
        }
        Ok(replies)
    }
}
