//! A connection that is ready to send, and why it gave no reply.

use std::sync::Arc;

use deadpool::unmanaged::Object;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use super::error::OtherData;
use super::link::{Link, LiveConnection};

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
pub(crate) struct OpenConnection {
    live: LiveConnection,
    /// Held until the reply, where no other caller may use the connection meanwhile.
    _leased: Option<Object<Arc<Link>>>,
}

impl OpenConnection {
    /// `leased`: its place in the pool, if it is from there.
    pub(crate) fn new(live: LiveConnection, leased: Option<Object<Arc<Link>>>) -> Self {
        let _leased = leased;
        Self { live, _leased }
    }

    /// Sends one command and waits for its reply; an error reply is `Ok(Value::ServerError)`.
    pub(crate) async fn send(
        mut self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, SendError> {
        let sent = self.live.connection.send_packed_command(command);
        let reply = timeout_at(deadline, sent).await;
        self.check(reply)
    }

    /// Sends a pipeline; the replies come in order, error replies among them.
    pub(crate) async fn send_all(
        mut self,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, SendError> {
        let (connection, count) = (&mut self.live.connection, pipeline.len());
        let sent = connection.send_packed_commands(pipeline, 0, count);
        let reply = timeout_at(deadline, sent).await;
        self.check(reply)
    }

    /// Discards a connection that broke or did not reply in time.
    fn check<T>(self, reply: Result<RedisResult<T>, Elapsed>) -> Result<T, SendError> {
        let failure = match reply {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(error)) => SendError::ReplyLost(error),
            Err(_) => SendError::NoReply,
        };
        self.live.discard();
        Err(failure)
    }
}
