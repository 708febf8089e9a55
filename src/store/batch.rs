//! Many calls of a script at once: a pipeline per node instead of a round trip per call.

use redis::Value;
use tracing::warn;

use super::signature::ScriptCall;
use super::{Call, Lane, Store, StoreError};

/// How often calls are sent: again for a script that the node did not know, and for a slot that is moving.
const ROUNDS: usize = 3;

impl Store {
    /// Makes many calls of a script, off the request path. The outcomes come in the order of `calls`, `None` where there was no
    /// reply: the node did not reply, or the slot has no owner.
    ///
    /// Only for scripts that may run twice, refuse nothing and have no keys of a day.
    ///
    /// # Errors
    /// [`StoreError`] when the deployment cannot be read.
    pub(super) async fn run_each<C: ScriptCall>(
        &self,
        calls: &[C],
    ) -> Result<Vec<Option<Result<C::Outcome, StoreError>>>, StoreError> {
        let today = self.today();
        let calls: Vec<_> = calls
            .iter()
            .map(|call| call.on(self.keys(), today))
            .collect();
        let replies = self.send_each(&calls).await?.into_iter();
        let read = |reply| {
            let refused = |refused: super::signature::Refused| refused.unexpected(C::SIGNATURE);
            C::read(reply).and_then(|outcome| outcome.map_err(refused))
        };
        Ok(replies.map(|reply| reply.map(read)).collect())
    }

    async fn send_each(&self, calls: &[Call]) -> Result<Vec<Option<Value>>, StoreError> {
        let mut replies = vec![None; calls.len()];
        let mut left: Vec<usize> = (0..calls.len()).collect();
        for _ in 0..ROUNDS {
            left = self.pipe(calls, left, &mut replies).await?;
            let Some(first) = left.pop() else { break };
            // One refused call is sent alone, which loads the script or finds the new node of the slot.
            match self.send_on(Lane::Background, &calls[first]).await {
                Ok(reply) => replies[first] = Some(reply),
                Err(error) => {
                    let name = calls[first].script.name();
                    warn!(script = name, error = %error, "script `{name}` was refused for one of many keys: {error}");
                }
            }
        }
        Ok(replies)
    }

    /// Sends these calls; returns those that were refused. A call without a reply may have run.
    async fn pipe(
        &self,
        calls: &[Call],
        wanted: Vec<usize>,
        replies: &mut [Option<Value>],
    ) -> Result<Vec<usize>, StoreError> {
        let command = |index: &usize| {
            let call = &calls[*index];
            (call.key.clone(), call.command.clone())
        };
        let commands: Vec<_> = wanted.iter().map(command).collect();
        let (mut refused, mut lost) = (Vec::new(), 0);
        for (index, reply) in wanted.into_iter().zip(self.pipelines(&commands).await?) {
            match reply {
                Some(Value::ServerError(_)) => refused.push(index),
                Some(reply) => replies[index] = Some(reply),
                None => lost += 1,
            }
        }
        if let (1.., Some(call)) = (lost, calls.first()) {
            let name = call.script.name();
            warn!(
                script = name,
                keys = lost,
                "script `{name}` got no reply for {lost} of many keys"
            );
        }
        Ok(refused)
    }
}
