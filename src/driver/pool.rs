//! Connections for background work, each used by one caller at a time.

use std::sync::Arc;
use std::time::Instant;

use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, RecycleResult};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{ConnectionInfo, ErrorKind, RedisError, RedisResult};

use super::link::{Dialer, noticing};

/// A connection that returns to the pool when it is dropped.
pub(crate) type Pooled = Object<Opener>;

/// Opens connections to one node. The crate's own manager sends `PING` before each use, a second round trip for every list;
/// this one does so only when a connection of the pool broke since the last check.
pub(crate) struct Opener {
    manager: deadpool_redis::Manager,
    info: ConnectionInfo,
    dialer: Dialer,
    broken_at: Arc<Mutex<Option<Instant>>>,
}

/// A pool of connections to one node; opens none.
///
/// # Errors
/// When the address or its TLS settings cannot be used at all.
pub(crate) fn pool(info: ConnectionInfo, dialer: &Dialer) -> RedisResult<Pool<Opener>> {
    let broken_at = Arc::new(Mutex::new(None));
    let noticed = Arc::clone(&broken_at);
    let config = noticing(dialer.connect_timeout, move || {
        *noticed.lock() = Some(Instant::now());
    });
    let opener = Opener {
        manager: deadpool_redis::Manager::new_with_config(info.clone(), config)?,
        info,
        dialer: dialer.clone(),
        broken_at,
    };
    let pool = Pool::builder(opener)
        .max_size(dialer.pooled.max(1))
        .recycle_timeout(Some(dialer.connect_timeout))
        .runtime(Runtime::Tokio1)
        .build();
    let invalid = (ErrorKind::InvalidClientConfig, "the pool cannot be built");
    pool.map_err(|_| RedisError::from(invalid))
}

impl Manager for Opener {
    type Type = MultiplexedConnection;
    type Error = RedisError;

    async fn create(&self) -> Result<MultiplexedConnection, RedisError> {
        let open = async {
            let mut connection = self.manager.create().await?;
            self.dialer.admit(&mut connection).await?;
            Ok(connection)
        };
        self.dialer.within_timeout(&self.info, open).await
    }

    async fn recycle(
        &self,
        connection: &mut MultiplexedConnection,
        metrics: &Metrics,
    ) -> RecycleResult<RedisError> {
        let broken_at = *self.broken_at.lock();
        let checked_at = metrics.recycled.unwrap_or(metrics.created);
        match broken_at {
            Some(broken_at) if broken_at >= checked_at => {
                self.manager.recycle(connection, metrics).await
            }
            _ => Ok(()),
        }
    }
}
