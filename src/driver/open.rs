//! A connection that is ready to send, and why it gave no reply.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use super::error::OtherData;
use super::link::LiveConnection;
use super::pool::Pooled;

/// Why a node gave no reply.
#[derive(Debug, Clone)]
pub(crate) enum SendError {
    /// The command was not sent.
    NotConnected(Option<RedisError>),
    /// The connection broke after the command was sent; it may have run.
    ReplyLost(RedisError),
    /// The deadline passed after the command was sent; it may have run.
    NoReply,
    /// The command was not sent, because the node holds other data.
    OtherData(OtherData),
}

/// A connection that is ready to send.
pub(crate) enum OpenConnection {
    Shared(LiveConnection),
    Pooled(Pooled),
}

impl OpenConnection {
    /// Sends one command and waits for its reply; an error reply is `Ok(Value::ServerError)`.
    pub(crate) async fn send(self, command: &Cmd, deadline: Instant) -> Result<Value, SendError> {
        let mut connection = self.connection();
        let reply = timeout_at(deadline, connection.send_packed_command(command)).await;
        self.check(reply)
    }

    /// Sends a pipeline; the replies come in order, error replies among them.
    pub(crate) async fn send_all(
        self,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, SendError> {
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
        match self {
            Self::Shared(live) => live.connection.clone(),
            Self::Pooled(pooled) => MultiplexedConnection::clone(pooled),
        }
    }

    /// Discards a connection that broke or did not reply in time.
    fn check<T>(
        self,
        reply: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, SendError> {
        let failure = match reply {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(error)) => SendError::ReplyLost(error),
            Err(_) => SendError::NoReply,
        };
        match self {
            Self::Shared(live) => live.discard(),
            Self::Pooled(pooled) => drop(Pooled::take(pooled)),
        }
        Err(failure)
    }
}
