//! Calls that are put together before they are sent: by the store as any other, or over a connection with nothing around
//! it, to see what Redis itself can do.

use redis::aio::MultiplexedConnection;
use redis::{Client, Value};

use super::{Call, Store, StoreError, Unavailable};
use crate::driver::connection::failed;
use crate::driver::link::async_config;
use crate::driver::node::Lane;
use crate::driver::slot;

/// A connection that sends what it is given: it loads no script, follows no slot and sends nothing twice.
#[derive(Clone)]
pub struct Line {
    node: String,
    connection: MultiplexedConnection,
}

impl Line {
    /// Sends a call; many may be on their way at once.
    ///
    /// # Errors
    /// [`StoreError`]; also when the node does not know the script.
    pub async fn send(&self, call: &Call) -> Result<Value, StoreError> {
        let mut connection = self.connection.clone();
        match connection.send_packed_command(&call.command).await {
            Ok(Value::ServerError(refusal)) => Err(failed(&refusal, Some(call.script))),
            Ok(reply) => Ok(reply),
            Err(source) => {
                let node = self.node.clone();
                Err(Unavailable::ReplyLost { node, source }.into())
            }
        }
    }
}

impl Store {
    /// Sends a call on the request path, see [`Store::call`].
    ///
    /// # Errors
    /// As for [`Store::call`].
    pub async fn send(&self, call: &Call) -> Result<Value, StoreError> {
        self.send_on(Lane::Request, call).await
    }

    /// The same on a lane.
    pub(super) async fn send_on(&self, lane: Lane, call: &Call) -> Result<Value, StoreError> {
        let turn = self.turn()?;
        self.deployment_by(turn.deadline).await?;
        self.execute(call, lane, turn.deadline).await
    }

    /// A connection to the node that such calls go to.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn line(&self, call: &Call) -> Result<Line, StoreError> {
        let deadline = self.turn()?.deadline;
        let connection = &self.inner.connection;
        let node = connection
            .route(slot::of(call.key.as_bytes()), deadline)
            .await?;
        let not_connected = |source| Unavailable::NotConnected {
            node: node.address.clone(),
            source: Some(source),
        };
        let client = Client::open(node.info.clone()).map_err(not_connected)?;
        let config = async_config(self.timeout());
        let opened = client.get_multiplexed_async_connection_with_config(&config);
        Ok(Line {
            connection: opened.await.map_err(not_connected)?,
            node: node.address.clone(),
        })
    }
}
