//! Whether Redis still holds the data that the process started with: the secret in the deployment's record, compared on each
//! new connection and by a heartbeat. A process with another secret would carry out again what a record already holds.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};
use secrecy::{ExposeSecret, SecretString};

use super::metrics::StoreMetrics;

/// Why nothing may be read or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OtherData {
    /// The record is not there.
    #[error(
        "the deployment's record `{0}` is missing in Redis, so requests are refused: restore it from a backup \
         (docs/operating.md, \"The deployment's record\")"
    )]
    Gone(String),
    /// The record is another one than at the start of the process.
    #[error(
        "the deployment's record `{0}` differs from that at the start of this process, so requests are refused: restore it from \
         a backup, or restart every process if the data was replaced on purpose (docs/operating.md, \"The deployment's record\")"
    )]
    Differs(String),
}

const SAME: u8 = 0;
const GONE: u8 = 1;
const DIFFERS: u8 = 2;

/// The secret that the process started with, and what the last comparison found.
#[derive(Debug)]
pub(crate) struct Identity {
    record: String,
    secret: OnceLock<SecretString>,
    found: AtomicU8,
    metrics: StoreMetrics,
}

impl Identity {
    /// Of the deployment with this record; nothing is compared before its secret is known.
    pub(crate) fn new(record: String, metrics: StoreMetrics) -> Self {
        Self {
            record,
            secret: OnceLock::new(),
            found: AtomicU8::new(SAME),
            metrics,
        }
    }

    /// Remembers the secret that the process started with.
    pub(crate) fn keep(&self, secret: SecretString) {
        // There is one start.
        let _ = self.secret.set(secret);
    }

    /// The command whose reply [`Identity::compare`] takes.
    pub(crate) fn command(&self) -> Cmd {
        let mut read = redis::cmd("HGET");
        read.arg(&self.record).arg("secret");
        read
    }

    /// Compares over a new connection.
    pub(crate) async fn compare_over(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<()> {
        if self.secret.get().is_some() {
            let reply = connection.send_packed_command(&self.command()).await?;
            self.compare(&reply);
        }
        Ok(())
    }

    /// Compares what a node holds. An error says nothing: the node does not own the record, or is loading its data.
    pub(crate) fn compare(&self, reply: &Value) {
        let Some(secret) = self.secret.get() else {
            return;
        };
        let found = match reply {
            Value::ServerError(error) if error.code() != "WRONGTYPE" => return,
            Value::Nil => GONE,
            Value::BulkString(found) if found == secret.expose_secret().as_bytes() => SAME,
            _ => DIFFERS,
        };
        self.found.store(found, Ordering::Release);
        self.metrics.other_data.set((found != SAME).into());
    }

    /// # Errors
    /// [`OtherData`] after a comparison that found it, until one finds the record again.
    pub(crate) fn check(&self) -> Result<(), OtherData> {
        match self.found.load(Ordering::Acquire) {
            SAME => Ok(()),
            GONE => Err(OtherData::Gone(self.record.clone())),
            _ => Err(OtherData::Differs(self.record.clone())),
        }
    }
}
