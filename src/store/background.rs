//! Calls off the request path: single commands, pipelines over many partitions, probes.

use std::time::Duration;

use redis::{Cmd, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::error;

use super::{Store, StoreError, Unavailable};
use crate::driver::connection::{Request, failed};
use crate::driver::node::{Lane, Node, SendError};

impl Store {
    /// Runs one plain command off the request path, on the node that owns `key`.
    ///
    /// # Errors
    /// As for [`Store::call`]; an error reply is [`StoreError::Refused`].
    pub async fn query(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        let turn = self.turn()?;
        self.deployment_by(turn.deadline).await?;
        self.query_by(key, command, Lane::Background, turn.deadline)
            .await
    }

    /// The same on the request path, for a command whose reply is short.
    ///
    /// # Errors
    /// As for [`Store::query`].
    pub(super) async fn query_now(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        let turn = self.turn()?;
        self.deployment_by(turn.deadline).await?;
        self.query_by(key, command, Lane::Request, turn.deadline)
            .await
    }

    async fn query_by(
        &self,
        key: &str,
        command: &Cmd,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let request = Request {
            key: key.as_bytes(),
            command,
            script: None,
        };
        self.inner.connection.send(request, lane, deadline).await
    }

    /// Runs many plain commands off the request path, each on the node that owns its key; one pipeline per node.
    /// The replies come in the order of `commands`.
    ///
    /// For reads and other commands that may be repeated: what a moved slot refuses is sent again on its own.
    ///
    /// # Errors
    /// As for [`Store::query`], for the first command that failed.
    pub async fn query_all(&self, commands: &[(String, Cmd)]) -> Result<Vec<Value>, StoreError> {
        self.query_each(commands).await?.into_iter().collect()
    }

    /// The same, with [`StoreError::Refused`] in the place of a reply: one key that holds something else takes no other's
    /// reply away.
    ///
    /// # Errors
    /// As for [`Store::query`], save [`StoreError::Refused`].
    pub async fn query_each(
        &self,
        commands: &[(String, Cmd)],
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let answers = self.pipelines(commands).await?;
        let turn = self.turn()?;
        let mut replies = Vec::with_capacity(commands.len());
        for (answer, (key, command)) in answers.into_iter().zip(commands) {
            if let Some(reply) = answer.filter(|a| !matches!(a, Value::ServerError(_))) {
                replies.push(Ok(reply));
                continue;
            }
            let again = self.query_by(key, command, Lane::Background, turn.deadline);
            replies.push(match again.await {
                Err(refused @ StoreError::Refused { .. }) => Err(refused),
                reply => Ok(reply?),
            });
        }
        Ok(replies)
    }

    /// The same for work that is repeated anyway and must not stop where one node of several is out of reach: `None`
    /// stands for what its node did not answer. Where a key holds something else than it should, that is told and the
    /// reply is `Nil`.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub(super) async fn query_reachable(
        &self,
        commands: &[(String, Cmd)],
    ) -> Result<Vec<Option<Value>>, StoreError> {
        let mut replies = self.pipelines(commands).await?;
        let turn = self.turn()?;
        for (answer, (key, command)) in replies.iter_mut().zip(commands) {
            if !matches!(answer, Some(Value::ServerError(_))) {
                continue;
            }
            let again = self.query_by(key, command, Lane::Background, turn.deadline);
            *answer = match again.await {
                Ok(reply) => Some(reply),
                Err(StoreError::Refused { code, detail }) => {
                    error!(
                        key,
                        "the key `{key}` cannot be read, what it should hold is not done: {code} {detail}"
                    );
                    Some(Value::Nil)
                }
                Err(StoreError::Unavailable(_)) => None,
                Err(error) => return Err(error),
            };
        }
        if let (Some((key, command)), true) =
            (commands.first(), replies.iter().all(Option::is_none))
        {
            // Tells why.
            replies[0] = Some(
                self.query_by(key, command, Lane::Background, turn.deadline)
                    .await?,
            );
        }
        Ok(replies)
    }

    /// Asks each node that holds data whether it is there (`PING`), all at once and beside all other work.
    ///
    /// # Errors
    /// The first failure, within `limit`, when no node answers: one is enough to serve the tenants on it.
    pub async fn ping(&self, limit: Duration) -> Result<(), StoreError> {
        let deadline = Instant::now() + limit.min(self.timeout());
        let nodes = self.inner.connection.nodes(deadline).await?;
        let count = nodes.len();
        let mut asked = JoinSet::new();
        for node in nodes {
            let store = self.clone();
            asked.spawn(async move {
                let ping = redis::cmd("PING");
                store.ask(&node, &ping, Lane::Request, deadline).await
            });
        }
        let mut silent = Vec::with_capacity(count);
        while let Some(ended) = asked.join_next().await {
            if let Err(error) = ended.expect("a ping does not panic and is not aborted") {
                silent.push(error);
            }
        }
        let unreachable = i64::try_from(silent.len()).unwrap_or(i64::MAX);
        self.metrics().unreachable_primaries.set(unreachable);
        match silent.len() < count {
            true => Ok(()),
            false => silent.pop().map_or(Ok(()), Err),
        }
    }

    /// Runs a command on each node that holds data; the replies come with the nodes' addresses.
    pub(super) async fn everywhere(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        let mut replies = Vec::new();
        for node in self.inner.connection.nodes(deadline).await? {
            let reply = self.ask(&node, command, Lane::Background, deadline).await?;
            replies.push((node.address.clone(), reply));
        }
        Ok(replies)
    }

    /// Runs a command on each node that holds data, on all at the same time; the replies of those that answer come with
    /// the nodes' addresses.
    ///
    /// # Errors
    /// [`StoreError`] when none answers.
    pub(super) async fn everywhere_reachable(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        let mut asked = JoinSet::new();
        for (place, node) in self
            .inner
            .connection
            .nodes(deadline)
            .await?
            .into_iter()
            .enumerate()
        {
            let (store, command) = (self.clone(), command.clone());
            asked.spawn(async move {
                let reply = store.ask(&node, &command, Lane::Background, deadline).await;
                (place, node.address.clone(), reply)
            });
        }
        let mut answers = asked.join_all().await;
        answers.sort_by_key(|(place, ..)| *place);
        let (mut replies, mut failure) = (Vec::new(), None);
        for (_, address, reply) in answers {
            match reply {
                Ok(reply) => replies.push((address, reply)),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if replies.is_empty() => Err(error),
            _ => Ok(replies),
        }
    }

    /// Runs a command on one node.
    pub(super) async fn ask(
        &self,
        node: &Node,
        command: &Cmd,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let reply = match node.open(lane, deadline).await {
            Ok(open) => open.send(command, deadline).await,
            Err(silence) => Err(silence),
        };
        let silence = match reply {
            Ok(Value::ServerError(refusal)) => return Err(failed(&refusal, None)),
            Ok(reply) => return Ok(reply),
            Err(silence) => silence,
        };
        self.inner.connection.distrust(node);
        let node = node.address.clone();
        let unavailable = match silence {
            SendError::NotConnected(source) => Unavailable::NotConnected { node, source },
            SendError::ReplyLost(source) => Unavailable::ReplyLost { node, source },
            SendError::NoReply => Unavailable::NoReply { node },
        };
        Err(unavailable.into())
    }
}
