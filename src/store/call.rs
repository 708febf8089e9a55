//! Sends calls of scripts: with deadline and retries, or over a bare connection for benchmarks of Redis alone.

use redis::aio::MultiplexedConnection;
use redis::{Client, Value};

use super::{Call, Store, StoreError, Unavailable};
use crate::driver::connection::failed;
use crate::driver::link::async_config;
use crate::driver::node::Lane;
use crate::driver::slot;

/// A connection that loads no script, follows no redirect and retries nothing.
#[derive(Clone)]
pub struct BareConnection {
    node: String,
    connection: MultiplexedConnection,
}

impl BareConnection {
    /// Sends a call; many may wait for their replies at once.
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
        let timed = self.begin_call()?;
        self.deployment_by(timed.deadline).await?;
        self.execute(call, lane, timed.deadline).await
    }

    /// A connection to the node that owns the keys of `call`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn bare_connection(&self, call: &Call) -> Result<BareConnection, StoreError> {
        let deadline = self.begin_call()?.deadline;
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
        Ok(BareConnection {
            connection: opened.await.map_err(not_connected)?,
            node: node.address.clone(),
        })
    }
}
