//! One script over many keys at once: a pipeline per node instead of a round trip per key.

use std::sync::Arc;

use redis::{Pipeline, Value};
use tracing::warn;

use super::node::Node;
use super::{Arg, Lane, Script, Store, StoreError, slot};

/// How often what a node refused is sent again: once for a script that it did not know, once for a slot on the move.
const ROUNDS: usize = 3;

impl Store {
    /// Runs a script once for each key, with the same arguments; off the request path. The replies come in the order of
    /// `keys`, `None` where there was none: a node that did not answer, a slot that has no owner.
    ///
    /// Only for scripts that may run twice for the same key.
    ///
    /// # Errors
    /// [`StoreError`] when the deployment cannot be read.
    pub(super) async fn call_each(
        &self,
        script: &Script,
        keys: &[String],
        args: &[Arg<'_>],
    ) -> Result<Vec<Option<Value>>, StoreError> {
        self.deployment().await?;
        let mut replies = vec![None; keys.len()];
        let mut left: Vec<usize> = (0..keys.len()).collect();
        for _ in 0..ROUNDS {
            left = self.pipe(script, keys, args, left, &mut replies).await;
            let Some(first) = left.pop() else { break };
            // One of the refused goes alone: that loads the script, or finds the slot's new node.
            match self
                .call_on(Lane::Background, script, &keys[first..=first], args)
                .await
            {
                Ok(reply) => replies[first] = Some(reply),
                Err(error) => {
                    let name = script.name();
                    warn!(script = name, error = %error, "script `{name}` was refused for one of many keys: {error}");
                }
            }
        }
        Ok(replies)
    }

    /// One pipeline per node. Answers those keys that were refused; what a silent node was sent may have run.
    async fn pipe(
        &self,
        script: &Script,
        keys: &[String],
        args: &[Arg<'_>],
        wanted: Vec<usize>,
        replies: &mut [Option<Value>],
    ) -> Vec<usize> {
        let (deadline, connection) = (self.deadline(), &self.inner.connection);
        let mut batches: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
        let mut refused = Vec::new();
        for index in wanted {
            let Ok(node) = connection
                .route(slot::of(keys[index].as_bytes()), deadline)
                .await
            else {
                refused.push(index);
                continue;
            };
            match batches
                .iter_mut()
                .find(|(other, _)| Arc::ptr_eq(other, &node))
            {
                Some((_, batch)) => batch.push(index),
                None => batches.push((node, vec![index])),
            }
        }
        for (node, batch) in batches {
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for index in &batch {
                pipeline.add_command(script.command(&keys[*index..=*index], args));
            }
            let answers = match node.open(Lane::Background, deadline).await {
                Ok(open) => open.send_all(&pipeline, deadline).await,
                Err(silence) => Err(silence),
            };
            let Ok(answers) = answers else {
                connection.distrust(&node);
                warn!(redis.address = %node.address, "Redis at {} did not answer {} calls", node.address, batch.len());
                continue;
            };
            for (index, answer) in batch.into_iter().zip(answers) {
                match answer {
                    Value::ServerError(_) => refused.push(index),
                    reply => replies[index] = Some(reply),
                }
            }
        }
        refused
    }
}
