//! Many requests at once: one pipeline per node, to all nodes at the same time, so that a slow node does not delay the others.

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use super::call::Request;
use super::cluster::slot_of;
use super::connection::{Connection, failed, not_ready};
use super::error::{StoreError, Unavailable};
use super::memory::MemoryShare;
use super::node::{Lane, Node};
use super::retry::{Action, action};

impl Connection {
    /// Sends each request once, to the node that owns its key and on background connections. The replies come in the order of
    /// `requests`. [`Unavailable::NotReady`] says that the node did not run one, such as for a script that it does not know.
    pub(crate) async fn send_each(
        &self,
        requests: &[Request<'_>],
        deadline: Instant,
    ) -> Vec<Result<Value, StoreError>> {
        let now = Instant::now();
        // A slot without an owner leaves time for the others.
        let mut route_until = now + deadline.saturating_duration_since(now) / 2;
        let unsent = |_: &Request<'_>| Err(StoreError::from(Unavailable::not_connected("Redis")));
        let mut replies: Vec<_> = requests.iter().map(unsent).collect();
        let mut batches: Vec<(Arc<Node>, Vec<usize>)> = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let node = match self
                .route(slot_of(request.key.as_bytes()), route_until)
                .await
            {
                Ok(node) => node,
                Err(unavailable) => {
                    replies[index] = Err(unavailable.into());
                    route_until = Instant::now();
                    continue;
                }
            };
            let same = |(other, _): &&mut (Arc<Node>, _)| Arc::ptr_eq(other, &node);
            match batches.iter_mut().find(same) {
                Some((_, batch)) => batch.push(index),
                None => batches.push((node, vec![index])),
            }
        }
        let mut sent = JoinSet::new();
        for (node, batch) in batches {
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for index in &batch {
                pipeline.add_command(requests[*index].command.clone());
            }
            sent.spawn(async move {
                let replies = match node.open(Lane::Background, deadline).await {
                    Ok(open) => open.send_all(&pipeline, deadline).await,
                    Err(error) => Err(error),
                };
                (node, batch, replies)
            });
        }
        while let Some(joined) = sent.join_next().await {
            let (node, batch, sent) = joined.expect("a pipeline does not panic");
            match sent {
                Ok(sent) => {
                    for (index, reply) in batch.into_iter().zip(sent) {
                        replies[index] = self.read(&node, &requests[index], reply);
                    }
                }
                Err(error) => {
                    self.distrust(&node);
                    debug!(redis.address = %node.address, "Redis at {} did not reply to {} commands", node.address, batch.len());
                    for index in batch {
                        replies[index] = Err(error.clone().into());
                    }
                }
            }
        }
        replies
    }

    /// A reply of a pipeline, or the error that it is.
    fn read(&self, node: &Node, request: &Request<'_>, reply: Value) -> Result<Value, StoreError> {
        let Value::ServerError(refusal) = reply else {
            return Ok(reply);
        };
        Err(match action(&refusal) {
            Action::Full => {
                node.memory.note(MemoryShare::FULL);
                StoreError::Full
            }
            Action::Failed => failed(&refusal, request.script),
            _ => not_ready(node, refusal).into(),
        })
    }

    /// Sends a command to each node that holds data, to all at the same time; the replies come in the order of the nodes.
    ///
    /// # Errors
    /// [`StoreError`] when the nodes are not known in time.
    pub(crate) async fn send_to_nodes(
        self: &Arc<Self>,
        lane: Lane,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<(Arc<Node>, Result<Value, StoreError>)>, StoreError> {
        let mut sent = JoinSet::new();
        for (position, node) in self.nodes(deadline).await?.into_iter().enumerate() {
            let (connection, command) = (Arc::clone(self), command.clone());
            sent.spawn(async move {
                let reply = connection.send_to(&node, lane, &command, deadline).await;
                (position, node, reply)
            });
        }
        let mut replies = sent.join_all().await;
        replies.sort_by_key(|(position, ..)| *position);
        let replies = replies.into_iter();
        Ok(replies.map(|(_, node, reply)| (node, reply)).collect())
    }

    /// Sends a command to one node.
    pub(crate) async fn send_to(
        &self,
        node: &Node,
        lane: Lane,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        match node.send(lane, command, deadline).await {
            Ok(Value::ServerError(refusal)) => Err(failed(&refusal, None)),
            Ok(reply) => Ok(reply),
            Err(error) => {
                self.distrust(node);
                Err(error.into())
            }
        }
    }
}
