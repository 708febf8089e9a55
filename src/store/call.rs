//! Sends encoded calls of scripts, with deadline and retries.

use redis::Value;

use super::{Call, Store, StoreError};
use crate::driver::connection::Sent;
use crate::driver::node::Lane;

impl Store {
    /// Sends a call on the request path, within the request's deadline.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the deadline passes, [`StoreError::Deployment`] when the data belongs to another
    /// deployment, and every error reply.
    pub async fn send(&self, call: &Call) -> Result<Value, StoreError> {
        self.send_on(Lane::Request, call).await
    }

    /// Like [`Store::send`], on a lane.
    pub(super) async fn send_on(&self, lane: Lane, call: &Call) -> Result<Value, StoreError> {
        self.exchange(lane, call).await.map(|sent| sent.value)
    }

    /// The same, with what is missing where the reply should have waited for replicas.
    pub(super) async fn exchange(&self, lane: Lane, call: &Call) -> Result<Sent, StoreError> {
        let timed = self.begin_call()?;
        self.deployment_by(timed.deadline).await?;
        self.execute(call, lane, timed.deadline).await
    }
}
