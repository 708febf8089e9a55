//! A connection that is ready to send, and what comes back.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use super::error::Unavailable;
use super::link::LiveConnection;
use super::pool::Pooled;

/// A connection that is ready to send.
pub(crate) struct OpenConnection<'a> {
    /// Address of the node.
    pub node: &'a str,
    pub source: Source,
}

/// Where a connection is from.
pub(crate) enum Source {
    Shared(LiveConnection),
    Pooled(Pooled),
}

/// A reply, and what is missing where it should have waited for replicas.
pub(crate) struct SentReply {
    pub value: Value,
    /// Why it must not count as done, if it wrote anything.
    pub too_few: Option<Unavailable>,
    /// When the command was sent that this is the reply to.
    pub sent_at: Instant,
}

impl OpenConnection<'_> {
    /// Sends one command and waits for its reply; an error reply is `Ok(Value::ServerError)`.
    pub(crate) async fn send(self, command: &Cmd, deadline: Instant) -> Result<Value, Unavailable> {
        let mut connection = self.connection();
        let reply = timeout_at(deadline, connection.send_packed_command(command)).await;
        self.check(reply)
    }

    /// Sends a pipeline; the replies come in order, error replies among them.
    pub(crate) async fn send_all(
        self,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, Unavailable> {
        let mut connection = self.connection();
        let count = pipeline.len();
        let reply = timeout_at(
            deadline,
            connection.send_packed_commands(pipeline, 0, count),
        )
        .await;
        self.check(reply)
    }

    fn connection(&self) -> MultiplexedConnection {
        match &self.source {
            Source::Shared(live) => live.connection.clone(),
            Source::Pooled(pooled) => MultiplexedConnection::clone(pooled),
        }
    }

    /// Discards a connection that broke or did not reply in time.
    fn check<T>(
        self,
        reply: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, Unavailable> {
        let node = || self.node.to_owned();
        let failure = match reply {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(source)) => Unavailable::ReplyLost {
                node: node(),
                source,
            },
            Err(_) => Unavailable::NoReply { node: node() },
        };
        match self.source {
            Source::Shared(live) => live.discard(),
            Source::Pooled(pooled) => drop(Pooled::take(pooled)),
        }
        Err(failure)
    }
}
