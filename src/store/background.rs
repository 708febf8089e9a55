//! Calls off the request path: single commands, pipelines over many partitions, probes.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::connection::{Request, failed};
use super::node::{Lane, Node, Silence};
use super::{Store, StoreError, Unavailable, slot};

impl Store {
    /// Runs one plain command off the request path, on the node that owns `key`.
    ///
    /// # Errors
    /// As for [`Store::call`]; an error reply is [`StoreError::Refused`].
    pub async fn query(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        let turn = self.turn()?;
        self.deployment_by(turn.deadline).await?;
        self.query_by(key, command, turn.deadline).await
    }

    async fn query_by(
        &self,
        key: &str,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let request = Request {
            key: key.as_bytes(),
            command,
            script: None,
        };
        self.inner
            .connection
            .send(request, Lane::Background, deadline)
            .await
    }

    /// Runs many plain commands off the request path, each on the node that owns its key; one pipeline per node.
    /// The replies come in the order of `commands`.
    ///
    /// For reads and other commands that may be repeated: what a moved slot refuses is sent again on its own.
    ///
    /// # Errors
    /// As for [`Store::query`], for the first command that failed.
    pub async fn query_all(&self, commands: &[(String, Cmd)]) -> Result<Vec<Value>, StoreError> {
        let turn = self.turn()?;
        let deadline = turn.deadline;
        self.deployment_by(deadline).await?;
        let connection = &self.inner.connection;
        let mut batches: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
        for (index, (key, _)) in commands.iter().enumerate() {
            let node = connection.route(slot::of(key.as_bytes()), deadline).await?;
            match batches
                .iter_mut()
                .find(|(other, _)| Arc::ptr_eq(other, &node))
            {
                Some((_, batch)) => batch.push(index),
                None => batches.push((node, vec![index])),
            }
        }
        let mut replies = vec![Value::Nil; commands.len()];
        for (node, batch) in batches {
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for index in &batch {
                pipeline.add_command(commands[*index].1.clone());
            }
            let answers = match node.open(Lane::Background, deadline).await {
                Ok(open) => open.send_all(&pipeline, deadline).await,
                Err(silence) => Err(silence),
            };
            let answers = answers.unwrap_or_else(|_| {
                connection.distrust(&node);
                Vec::new()
            });
            let mut answers = answers.into_iter();
            for index in batch {
                replies[index] = match answers.next() {
                    Some(Value::ServerError(_)) | None => {
                        let (key, command) = &commands[index];
                        self.query_by(key, command, deadline).await?
                    }
                    Some(reply) => reply,
                };
            }
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
        self.metrics().unreachable_masters.set(unreachable);
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
            Silence::NotConnected(source) => Unavailable::NotConnected { node, source },
            Silence::ReplyLost(source) => Unavailable::ReplyLost { node, source },
            Silence::NoReply => Unavailable::NoReply { node },
        };
        Err(unavailable.into())
    }
}
