//! The master that Sentinel names. Sentinels are queried again whenever a connection to the master breaks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use redis::{Client, ConnectionInfo, ErrorKind, RedisError, RedisResult};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use super::error::Unavailable;
use super::link::{Dialer, async_config};
use super::node::Node;
use super::url::{WatchedMaster, at_address};

/// The pause after no Sentinel could name the master.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct SentinelRouter {
    master: String,
    template: ConnectionInfo,
    dialer: Dialer,
    current: RwLock<Option<Arc<Node>>>,
    search: Mutex<Search>,
}

struct Search {
    sentinels: Vec<ConnectionInfo>,
    failed: Option<(Instant, RedisError)>,
}

impl SentinelRouter {
    pub(crate) fn new(master: WatchedMaster, dialer: Dialer) -> Self {
        let search = Search {
            sentinels: master.sentinels,
            failed: None,
        };
        Self {
            master: master.name,
            template: master.template,
            dialer,
            current: RwLock::default(),
            search: Mutex::new(search),
        }
    }

    /// The master; queries the Sentinels when it is unknown or a connection to it broke.
    pub(crate) async fn node(&self, deadline: Instant) -> Result<Arc<Node>, Unavailable> {
        if let Some(node) = self.current() {
            return Ok(node);
        }
        let not_found = |source| Unavailable::NotConnected {
            node: format!("the master `{}` of the Sentinels", self.master),
            source,
        };
        let Ok(mut search) = timeout_at(deadline, self.search.lock()).await else {
            return Err(not_found(None));
        };
        if let Some(node) = self.current() {
            return Ok(node);
        }
        if let Some((at, error)) = &search.failed
            && at.elapsed() < PAUSE
        {
            return Err(not_found(Some(error.clone())));
        }
        match timeout_at(deadline, Box::pin(self.find(&mut search))).await {
            Ok(Ok(node)) => {
                search.failed = None;
                Ok(node)
            }
            Ok(Err(error)) => {
                search.failed = Some((Instant::now(), error.clone()));
                Err(not_found(Some(error)))
            }
            Err(_) => Err(not_found(None)),
        }
    }

    /// The master as far as it is known.
    pub(crate) fn current(&self) -> Option<Arc<Node>> {
        let current = self.current.read();
        current.as_ref().filter(|node| !node.is_lost()).cloned()
    }

    async fn find(&self, search: &mut Search) -> RedisResult<Arc<Node>> {
        let mut last =
            RedisError::from((ErrorKind::EmptySentinelList, "no Sentinel is configured"));
        for _ in 0..search.sentinels.len() {
            let sentinel = &search.sentinels[0];
            match self.query(sentinel).await {
                Ok((host, port)) => return self.adopt(&host, port),
                Err(error) => {
                    warn!(sentinel = %sentinel.addr(), error = %error, "a Sentinel did not name the master; trying the next: {error}");
                    last = error;
                    search.sentinels.rotate_left(1);
                }
            }
        }
        Err(last)
    }

    /// The address of the master, as one Sentinel names it.
    async fn query(&self, sentinel: &ConnectionInfo) -> RedisResult<(String, u16)> {
        let limit = self.dialer.connect_timeout;
        let queried = async {
            let client = Client::open(sentinel.clone())?;
            let mut connection = client
                .get_multiplexed_async_connection_with_config(&async_config(limit))
                .await?;
            let address: Option<(String, u16)> = redis::cmd("SENTINEL")
                .arg("GET-MASTER-ADDR-BY-NAME")
                .arg(&self.master)
                .query_async(&mut connection)
                .await?;
            address.ok_or_else(|| {
                let kind = ErrorKind::MasterNameNotFoundBySentinel;
                RedisError::from((
                    kind,
                    "the Sentinel knows no such master",
                    self.master.clone(),
                ))
            })
        };
        let late = (ErrorKind::Io, "the Sentinel did not reply in time");
        timeout(limit, queried)
            .await
            .unwrap_or_else(|_| Err(late.into()))
    }

    fn adopt(&self, host: &str, port: u16) -> RedisResult<Arc<Node>> {
        let node = Arc::new(Node::new(
            at_address(&self.template, host, port),
            &self.dialer,
        )?);
        let mut current = self.current.write();
        let before = current.replace(Arc::clone(&node));
        match before.map(|before| before.address == node.address) {
            Some(true) => {}
            Some(false) => {
                self.dialer.metrics.primary_changes.inc();
                warn!(
                    redis.address = %node.address,
                    "after a failover the master `{}` is at {}: unreplicated writes are lost. Run \
                     `budget-authority ledger verify` (docs/durability.md)",
                    self.master, node.address
                );
            }
            None => {
                info!(redis.address = %node.address, "the master `{}` is at {}", self.master, node.address);
            }
        }
        Ok(node)
    }
}
