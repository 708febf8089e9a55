//! Calls off the request path: single commands, pipelines over many partitions, probes.

use std::time::Duration;

use redis::{Cmd, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::error;

use super::{Store, StoreError};
use crate::driver::connection::{Request, failed};
use crate::driver::node::{Lane, Node};

impl Store {
    /// Runs one plain command off the request path, on the node that owns `key`.
    ///
    /// # Errors
    /// As for [`Store::send`]; an error reply is [`StoreError::Refused`].
    pub async fn query(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        let timed = self.begin_call()?;
        self.deployment_by(timed.deadline).await?;
        self.query_by(key, command, Lane::Background, timed.deadline)
            .await
    }

    /// The same on the request path, for a command whose reply is short.
    ///
    /// # Errors
    /// As for [`Store::query`].
    pub(super) async fn query_now(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        let timed = self.begin_call()?;
        self.deployment_by(timed.deadline).await?;
        self.query_by(key, command, Lane::Request, timed.deadline)
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
    /// For reads and other commands that may be repeated: a command that a moved slot refused is sent again on its own.
    ///
    /// # Errors
    /// As for [`Store::query`], for the first command that failed.
    pub async fn query_all(&self, commands: &[(String, Cmd)]) -> Result<Vec<Value>, StoreError> {
        self.query_each(commands).await?.into_iter().collect()
    }

    /// The same, with [`StoreError::Refused`] in place of a reply, so that one key of another type does not fail the others.
    ///
    /// # Errors
    /// As for [`Store::query`], except [`StoreError::Refused`].
    pub async fn query_each(
        &self,
        commands: &[(String, Cmd)],
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let sent = self.pipelines(commands).await?;
        let timed = self.begin_call()?;
        let mut replies = Vec::with_capacity(commands.len());
        for (reply, (key, command)) in sent.into_iter().zip(commands) {
            if let Some(reply) = reply.filter(|reply| !matches!(reply, Value::ServerError(_))) {
                replies.push(Ok(reply));
                continue;
            }
            let again = self.query_by(key, command, Lane::Background, timed.deadline);
            replies.push(match again.await {
                Err(refused @ StoreError::Refused { .. }) => Err(refused),
                reply => Ok(reply?),
            });
        }
        Ok(replies)
    }

    /// The same for work that is repeated anyway and must not stop when one node of several is out of reach: `None` where
    /// the node did not reply. A key of another type is logged, and its reply is `Nil`.
    ///
    /// # Errors
    /// [`StoreError`] when no node replies.
    pub(super) async fn query_reachable(
        &self,
        commands: &[(String, Cmd)],
    ) -> Result<Vec<Option<Value>>, StoreError> {
        let mut replies = self.pipelines(commands).await?;
        let timed = self.begin_call()?;
        for (reply, (key, command)) in replies.iter_mut().zip(commands) {
            if !matches!(reply, Some(Value::ServerError(_))) {
                continue;
            }
            let again = self.query_by(key, command, Lane::Background, timed.deadline);
            *reply = match again.await {
                Ok(reply) => Some(reply),
                Err(StoreError::Refused { code, detail }) => {
                    error!(
                        key,
                        "the key `{key}` cannot be read and is skipped: {code} {detail}"
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
            // For the error.
            replies[0] = Some(
                self.query_by(key, command, Lane::Background, timed.deadline)
                    .await?,
            );
        }
        Ok(replies)
    }

    /// Sends `PING` to each node that holds data, to all at once and on the request path.
    ///
    /// # Errors
    /// A failure, within `limit`, when no node replies; one node is enough to serve its tenants.
    pub async fn ping(&self, limit: Duration) -> Result<(), StoreError> {
        let deadline = Instant::now() + limit.min(self.timeout());
        let nodes = self.inner.connection.nodes(deadline).await?;
        let count = nodes.len();
        let mut sent = JoinSet::new();
        for node in nodes {
            let store = self.clone();
            sent.spawn(async move {
                let ping = redis::cmd("PING");
                store
                    .query_node(&node, &ping, Lane::Request, deadline)
                    .await
            });
        }
        let mut failures = Vec::with_capacity(count);
        while let Some(ended) = sent.join_next().await {
            if let Err(error) = ended.expect("a ping does not panic and is not aborted") {
                failures.push(error);
            }
        }
        let unreachable = i64::try_from(failures.len()).unwrap_or(i64::MAX);
        self.metrics().unreachable_primaries.set(unreachable);
        match failures.len() < count {
            true => Ok(()),
            false => failures.pop().map_or(Ok(()), Err),
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
            let reply = self
                .query_node(&node, command, Lane::Background, deadline)
                .await?;
            replies.push((node.address.clone(), reply));
        }
        Ok(replies)
    }

    /// Runs a command on each node that holds data, on all at the same time; the replies of reachable nodes come with
    /// their addresses.
    ///
    /// # Errors
    /// [`StoreError`] when no node replies.
    pub(super) async fn everywhere_reachable(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        let mut sent = JoinSet::new();
        let nodes = self.inner.connection.nodes(deadline).await?;
        for (position, node) in nodes.into_iter().enumerate() {
            let (store, command) = (self.clone(), command.clone());
            sent.spawn(async move {
                let reply = store
                    .query_node(&node, &command, Lane::Background, deadline)
                    .await;
                (position, node.address.clone(), reply)
            });
        }
        let mut ended = sent.join_all().await;
        ended.sort_by_key(|(position, ..)| *position);
        let (mut replies, mut failure) = (Vec::new(), None);
        for (_, address, reply) in ended {
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
    pub(super) async fn query_node(
        &self,
        node: &Node,
        command: &Cmd,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let reply = match node.open(lane, deadline).await {
            Ok(open) => open.send(command, deadline).await,
            Err(error) => Err(error),
        };
        match reply {
            Ok(Value::ServerError(refusal)) => Err(failed(&refusal, None)),
            Ok(reply) => Ok(reply),
            Err(error) => {
                self.inner.connection.distrust(node);
                Err(error.of(node).into())
            }
        }
    }
}
