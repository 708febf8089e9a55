//! Calls off the request path: single commands, pipelines over many partitions, probes.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Store, StoreError};
use crate::driver::connection::{Request, failed};
use crate::driver::node::{Lane, Node};
use crate::driver::retry::{Action, action};

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

    pub(super) async fn query_by(
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
            mark: None,
        };
        let sent = self.inner.connection.send(request, lane, deadline);
        sent.await.map(|sent| sent.value)
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

    /// The same for work that is repeated anyway and must not stop when one node of several is out of reach or full: `None` where
    /// the node did not do it. A key of another type is counted and logged, and its reply is `Nil`.
    ///
    /// # Errors
    /// [`StoreError`] when no node replies.
    pub(super) async fn query_reachable(
        &self,
        commands: &[(String, Cmd)],
    ) -> Result<Vec<Option<Value>>, StoreError> {
        let mut replies = self.pipelines(commands).await?;
        let timed = self.begin_call()?;
        let mut full = 0;
        for (reply, (key, command)) in replies.iter_mut().zip(commands) {
            let Some(Value::ServerError(error)) = reply else {
                continue;
            };
            // The first one, sent alone, tells that a node is full; thousands would tell the same.
            if action(error) == Action::Full {
                full += 1;
                if full > 1 {
                    *reply = None;
                    continue;
                }
            }
            let again = self.query_by(key, command, Lane::Background, timed.deadline);
            *reply = match again.await {
                Ok(reply) => Some(reply),
                Err(StoreError::Refused { code, detail }) => {
                    self.note_unreadable(key, &format!("{code} {detail}"));
                    Some(Value::Nil)
                }
                Err(StoreError::Unavailable(_) | StoreError::Full) => None,
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
        let ping = redis::cmd("PING");
        let replies = self.on_each_node(&ping, Lane::Request, deadline).await?;
        let count = replies.len();
        let failures = replies.into_iter().filter_map(|(_, reply)| reply.err());
        let mut failures: Vec<_> = failures.collect();
        let unreachable = i64::try_from(failures.len()).unwrap_or(i64::MAX);
        self.metrics().unreachable_primaries.set(unreachable);
        match failures.len() < count {
            true => Ok(()),
            false => failures.pop().map_or(Ok(()), Err),
        }
    }

    /// Runs a command on each node that holds data; the replies come with the nodes' addresses.
    ///
    /// # Errors
    /// [`StoreError`] when a node does not reply.
    pub(super) async fn everywhere(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        let replies = self.on_each_node(command, Lane::Background, deadline);
        let replies = replies.await?.into_iter();
        let read = |(node, reply): (Arc<Node>, Result<_, _>)| Ok((node.address.clone(), reply?));
        replies.map(read).collect()
    }

    /// The same, with the replies of reachable nodes.
    ///
    /// # Errors
    /// [`StoreError`] when no node replies.
    pub(super) async fn everywhere_reachable(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        let (mut replies, mut failure) = (Vec::new(), None);
        let all = self.on_each_node(command, Lane::Background, deadline);
        for (node, reply) in all.await? {
            match reply {
                Ok(reply) => replies.push((node.address.clone(), reply)),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if replies.is_empty() => Err(error),
            _ => Ok(replies),
        }
    }

    /// Runs a command on each node that holds data, on all at the same time; the replies come in the order of the nodes.
    pub(super) async fn on_each_node(
        &self,
        command: &Cmd,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Vec<(Arc<Node>, Result<Value, StoreError>)>, StoreError> {
        let mut sent = JoinSet::new();
        let nodes = self.inner.connection.nodes(deadline).await?;
        for (position, node) in nodes.into_iter().enumerate() {
            let (store, command) = (self.clone(), command.clone());
            sent.spawn(async move {
                let reply = store.query_node(&node, &command, lane, deadline).await;
                (position, node, reply)
            });
        }
        let mut replies = sent.join_all().await;
        replies.sort_by_key(|(position, ..)| *position);
        let replies = replies.into_iter();
        Ok(replies.map(|(_, node, reply)| (node, reply)).collect())
    }

    /// Runs a command on one node.
    pub(super) async fn query_node(
        &self,
        node: &Node,
        command: &Cmd,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        match node.send(lane, command, deadline).await {
            Ok(Value::ServerError(refusal)) => Err(failed(&refusal, None)),
            Ok(reply) => Ok(reply),
            Err(error) => {
                self.inner.connection.distrust(node);
                Err(error.of(node).into())
            }
        }
    }
}
