//! The open connections of an address: their limits, which ones are closed to make room, and the files that they take.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::warn;

use super::timeouts::Progress;
use crate::api::auth::client_address::{TrustedProxies, is_trusted, network_of};
use crate::config::ConnectionLimits;
use crate::telemetry::HttpMetrics;

/// How soon to look for an idle connection again.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// How often to log that a limit is reached.
const WARN_EVERY: Duration = Duration::from_secs(60);

const OPEN_MAX: &str = "BUDGET_MAX_CONNECTIONS";
const PER_CLIENT_MAX: &str = "BUDGET_MAX_CONNECTIONS_PER_ADDRESS";

/// How many connections an address may have.
#[derive(Clone)]
pub(super) struct Bounds {
    /// In all, and how long each may take.
    pub(super) limits: ConnectionLimits,
    /// From one client address.
    pub(super) per_client_max: usize,
    /// Proxies, which have no limit per client address.
    pub(super) trusted: TrustedProxies,
    /// Counts what the bounds close or refuse.
    pub(super) metrics: HttpMetrics,
}

/// The open connections of an address. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connections(Arc<Shared>);

struct Shared {
    bounds: Bounds,
    table: Mutex<Table>,
    freed: Notify,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: HashMap<u64, Open>,
    clients: HashMap<IpAddr, usize>,
    warned: HashMap<&'static str, Instant>,
}

struct Open {
    client: IpAddr,
    progress: Arc<Progress>,
}

/// The place of one connection, free again when it is dropped.
pub(super) struct Place {
    connections: Connections,
    id: u64,
}

enum Admission {
    Admitted(Place),
    /// No connection is idle.
    Full,
    Refused,
}

impl Connections {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self(Arc::new(Shared {
            bounds,
            table: Mutex::default(),
            freed: Notify::new(),
        }))
    }

    /// Waits for a place for a connection. If all are taken, the longest idle connection is closed. `None` if the peer has too
    /// many and none of them is idle.
    pub(super) async fn admit(&self, peer: IpAddr, progress: &Arc<Progress>) -> Option<Place> {
        let mut counted = false;
        loop {
            let mut freed = pin!(self.0.freed.notified());
            freed.as_mut().enable();
            match self.try_admit(peer, progress, &mut counted) {
                Admission::Admitted(place) => return Some(place),
                Admission::Refused => return None,
                // A connection that becomes idle notifies nobody.
                Admission::Full => drop(tokio::time::timeout(RETRY_AFTER, freed).await),
            }
        }
    }

    fn try_admit(&self, peer: IpAddr, progress: &Arc<Progress>, counted: &mut bool) -> Admission {
        let (bounds, client) = (&self.0.bounds, network_of(peer));
        let mut table = self.0.table.lock();
        let is_bound = !is_trusted(&bounds.trusted, peer);
        let of_client = table.clients.get(&client).copied().unwrap_or_default();
        if is_bound && of_client >= bounds.per_client_max {
            self.count(&mut table, PER_CLIENT_MAX, counted);
            if !table.close_idle(1, |open| open.client == client) {
                return Admission::Refused;
            }
        }
        if table.open.len() >= bounds.limits.open_max {
            self.count(&mut table, OPEN_MAX, counted);
            // Several at once, because finding them scans all.
            if !table.close_idle((bounds.limits.open_max / 100).max(1), |_| true) {
                return Admission::Full;
            }
        }
        let id = table.enter(client, Arc::clone(progress));
        Admission::Admitted(Place {
            connections: self.clone(),
            id,
        })
    }

    /// Counts a connection that found no place, once.
    fn count(&self, table: &mut Table, setting: &'static str, counted: &mut bool) {
        if std::mem::replace(counted, true) {
            return;
        }
        let refusals = &self.0.bounds.metrics.limit_refusals;
        refusals.with_label_values(&[setting]).inc();
        let warned = table.warned.get(setting);
        if warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            table.warned.insert(setting, Instant::now());
            warn!(
                "{setting} is reached; a new connection closes an idle one, or waits or is refused where none is idle"
            );
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.0.table.lock().leave(self.id);
        self.connections.0.freed.notify_one();
    }
}

impl Table {
    fn enter(&mut self, client: IpAddr, progress: Arc<Progress>) -> u64 {
        self.next += 1;
        *self.clients.entry(client).or_default() += 1;
        self.open.insert(self.next, Open { client, progress });
        self.next
    }

    /// Does nothing if the connection was closed to make room.
    fn leave(&mut self, id: u64) {
        let Some(Open { client, .. }) = self.open.remove(&id) else {
            return;
        };
        let left = self.clients.get_mut(&client).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            self.clients.remove(&client);
        }
    }

    /// Closes up to `count` idle connections, the longest idle ones first; whether there was any.
    fn close_idle(&mut self, count: usize, among: impl Fn(&Open) -> bool) -> bool {
        let chosen = self.open.iter().filter(|(_, open)| among(open));
        let mut idle: Vec<_> = chosen
            .filter_map(|(id, open)| Some((open.progress.idle_since()?, *id)))
            .collect();
        idle.sort_unstable();
        for (_, id) in idle.iter().take(count) {
            if let Some(open) = self.open.get(id) {
                open.progress.close();
            }
            self.leave(*id);
        }
        !idle.is_empty()
    }
}

/// Connections to Redis, logs and listeners, beside those that are counted.
const OTHER_FILES: u64 = 200;

/// Raises the limit of open files to its maximum: the default of many systems is 1,024. Warns if the maximum is too low for these
/// connections.
pub fn raise_limit(connections: usize) {
    // Where it may not be raised, the present limit counts.
    let present = || rlimit::Resource::NOFILE.get_soft();
    let Ok(limit) = rlimit::increase_nofile_limit(u64::MAX).or_else(|_| present()) else {
        return;
    };
    let needed = connections as u64 + OTHER_FILES;
    if limit < needed {
        warn!(
            limit,
            needed,
            "the process may open {limit} files; {connections} connections take {needed}. Raise the limit of open files"
        );
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_is_raised_to_its_maximum() {
        let raise = || rlimit::increase_nofile_limit(u64::MAX).expect("the system has a limit");
        let limit = raise();
        assert!(limit >= 1_024, "{limit}");
        assert_eq!(raise(), limit);
    }
}
