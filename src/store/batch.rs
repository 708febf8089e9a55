//! One script over many keys at once: a pipeline per node instead of a round trip per key.

use redis::Value;
use tracing::warn;

use super::{Arg, Lane, Script, Store, StoreError};

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
        let mut replies = vec![None; keys.len()];
        let mut left: Vec<usize> = (0..keys.len()).collect();
        for _ in 0..ROUNDS {
            left = self.pipe(script, keys, args, left, &mut replies).await?;
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

    /// Answers those keys that were refused; what a silent node was sent may have run.
    async fn pipe(
        &self,
        script: &Script,
        keys: &[String],
        args: &[Arg<'_>],
        wanted: Vec<usize>,
        replies: &mut [Option<Value>],
    ) -> Result<Vec<usize>, StoreError> {
        let command = |index: &usize| {
            let command = script.command(&keys[*index..=*index], args);
            (keys[*index].clone(), command)
        };
        let commands: Vec<_> = wanted.iter().map(command).collect();
        let (mut refused, mut silent) = (Vec::new(), 0);
        for (index, answer) in wanted.into_iter().zip(self.pipelines(&commands).await?) {
            match answer {
                Some(Value::ServerError(_)) => refused.push(index),
                Some(reply) => replies[index] = Some(reply),
                None => silent += 1,
            }
        }
        if silent > 0 {
            let name = script.name();
            warn!(
                script = name,
                keys = silent,
                "script `{name}` was not answered for {silent} of many keys"
            );
        }
        Ok(refused)
    }
}
