//! The slot map of a Redis Cluster: updated by every redirect, and read again in the background.
//!
//! The crate's own cluster client is not used: it has one connection per node, sends `ASKING` separately from its command, and
//! opens connections without comparing the deployment's record (docs/decisions/0010-own-cluster-routing.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crc16::{State, XMODEM};
use parking_lot::{RwLock, RwLockUpgradableReadGuard};
use redis::{ConnectionInfo, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use super::error::Unavailable;
use super::link::Dialer;
use super::node::{Lane, Node};
use super::url::at_address;

/// Number of slots of a Redis Cluster.
const SLOTS: usize = 16_384;

/// The shortest time between two reads of the map.
const PAUSE: Duration = Duration::from_millis(100);

/// The index of a slot without owner.
const NO_OWNER: u16 = u16::MAX;

pub(crate) struct ClusterRouter {
    seeds: Vec<ConnectionInfo>,
    dialer: Dialer,
    map: RwLock<Map>,
    refreshing: AtomicBool,
    refreshed: Notify,
}

struct Map {
    nodes: Vec<Arc<Node>>,
    owner: Box<[u16]>,
    read_at: Option<Instant>,
}

/// The slots `first..=last`, owned by `host:port`.
#[derive(Debug, PartialEq)]
struct Range {
    first: u16,
    last: u16,
    host: String,
    port: u16,
}

impl ClusterRouter {
    pub(crate) fn new(seeds: Vec<ConnectionInfo>, dialer: Dialer) -> Self {
        Self {
            seeds,
            dialer,
            map: RwLock::new(Map::empty(None)),
            refreshing: AtomicBool::new(false),
            refreshed: Notify::new(),
        }
    }

    /// The owner of `slot` as far as it is known.
    pub(crate) fn known_owner(&self, slot: u16) -> Option<Arc<Node>> {
        self.map.read().owner(slot)
    }

    /// The owner of `slot`; reads the map first when the owner is unknown.
    pub(crate) async fn node(
        self: &Arc<Self>,
        slot: u16,
        deadline: Instant,
    ) -> Result<Arc<Node>, Unavailable> {
        if let Some(node) = self.known_owner(slot) {
            return Ok(node);
        }
        let refreshed = self.refreshed.notified();
        tokio::pin!(refreshed);
        refreshed.as_mut().enable();
        self.refresh();
        let _ = timeout_at(deadline, refreshed).await;
        self.known_owner(slot).ok_or_else(|| {
            Unavailable::not_connected(format!("the owner of slot {slot} of the cluster"))
        })
    }

    /// All masters with slots; reads the map first when none is known.
    pub(crate) async fn nodes(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<Vec<Arc<Node>>, Unavailable> {
        self.node(0, deadline).await?;
        Ok(self.map.read().owners())
    }

    /// The node at the address of a redirect; an empty host means that of `from`.
    pub(crate) fn at(&self, host: &str, port: u16, from: &Node) -> Option<Arc<Node>> {
        self.at_or_new(&self.map.read(), redirected(host, port, from))
    }

    /// Sets the owner of one slot from a redirect, and reads the whole map soon.
    pub(crate) fn moved(self: &Arc<Self>, slot: u16, host: &str, port: u16, from: &Node) {
        let mut map = self.map.write();
        if let Some(node) = self.at_or_new(&map, redirected(host, port, from)) {
            map.owner[slot as usize] = map.index(node);
        }
        drop(map);
        self.refresh();
    }

    /// Reads the map in the background, unless a read is running.
    pub(crate) fn refresh(self: &Arc<Self>) {
        if self.refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let router = Arc::clone(self);
        tokio::spawn(async move {
            let read_at = router.map.read().read_at;
            if let Some(read_at) = read_at {
                tokio::time::sleep_until(read_at + PAUSE).await;
            }
            router.read_map().await;
            router.refreshing.store(false, Ordering::Release);
            router.refreshed.notify_waiters();
        });
    }

    async fn read_map(&self) {
        let mut candidates = self.map.read().nodes.clone();
        for seed in &self.seeds {
            if self.map.read().known(seed).is_none() {
                candidates.extend(self.prepare(seed.clone()));
            }
        }
        // Start with a random node, because the first may lag behind.
        if !candidates.is_empty() {
            let first = rand::random_range(0..candidates.len());
            candidates.rotate_left(first);
        }
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        for node in &candidates {
            let deadline = Instant::now() + self.dialer.connect_timeout;
            let reply = node.send(Lane::Background, &command, deadline).await;
            let ranges = reply
                .ok()
                .and_then(|reply| ranges(reply, &host_of(&node.info)));
            match ranges {
                Some(ranges) if !ranges.is_empty() => return self.adopt(ranges, &node.info),
                _ => {
                    warn!(redis.address = %node.address, "a cluster node did not return its slots; trying the next")
                }
            }
        }
        self.map.write().read_at = Some(Instant::now());
    }

    fn adopt(&self, ranges: Vec<Range>, template: &ConnectionInfo) {
        // Requests read the map meanwhile, and nothing else changes it.
        let before = self.map.upgradable_read();
        let mut map = Map::empty(Some(Instant::now()));
        for range in ranges {
            let info = at_address(template, &range.host, range.port);
            let Some(node) = self.at_or_new(&before, info) else {
                continue;
            };
            let index = map.index(node);
            if let Some(slots) = map
                .owner
                .get_mut(range.first as usize..=range.last as usize)
            {
                slots.fill(index);
            }
        }
        let changes = before.changed_slots(&map);
        if changes > 0 {
            self.dialer.metrics.primary_changes.inc();
            info!(
                slots = changes,
                "{changes} slots of the cluster changed owners: if it was a failover, run `budget-authority ledger verify` \
                 (docs/durability.md)"
            );
        }
        *RwLockUpgradableReadGuard::upgrade(before) = map;
    }

    /// The node of the map at an address, or one that is not in it.
    fn at_or_new(&self, map: &Map, info: ConnectionInfo) -> Option<Arc<Node>> {
        map.known(&info).or_else(|| self.prepare(info))
    }

    fn prepare(&self, info: ConnectionInfo) -> Option<Arc<Node>> {
        Node::new(info, &self.dialer).map(Arc::new).ok()
    }
}

impl Map {
    fn empty(read_at: Option<Instant>) -> Self {
        Self {
            nodes: Vec::new(),
            owner: vec![NO_OWNER; SLOTS].into(),
            read_at,
        }
    }

    fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let index = self.owner[slot as usize];
        self.nodes.get(index as usize).cloned()
    }

    fn owners(&self) -> Vec<Arc<Node>> {
        let owns = |index: usize| self.owner.contains(&(index as u16));
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(i, _)| owns(*i))
            .map(|(_, node)| Arc::clone(node))
            .collect()
    }

    fn known(&self, info: &ConnectionInfo) -> Option<Arc<Node>> {
        let same = |node: &&Arc<Node>| node.info.addr() == info.addr();
        self.nodes.iter().find(same).cloned()
    }

    fn index(&mut self, node: Arc<Node>) -> u16 {
        let known = self
            .nodes
            .iter()
            .position(|other| Arc::ptr_eq(other, &node));
        known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        }) as u16
    }

    /// The number of slots that had an owner and now have another.
    fn changed_slots(&self, after: &Self) -> usize {
        (0..SLOTS)
            .filter(|slot| {
                self.owner[*slot] != NO_OWNER && self.address(*slot) != after.address(*slot)
            })
            .count()
    }

    fn address(&self, slot: usize) -> Option<&str> {
        let node = self.nodes.get(self.owner[slot] as usize);
        node.map(|node| node.address.as_str())
    }
}

/// The address of a redirect; an empty host means that of `from`.
fn redirected(host: &str, port: u16, from: &Node) -> ConnectionInfo {
    match host {
        "" => at_address(&from.info, &host_of(&from.info), port),
        host => at_address(&from.info, host, port),
    }
}

fn host_of(info: &ConnectionInfo) -> String {
    match info.addr() {
        redis::ConnectionAddr::Tcp(host, _) | redis::ConnectionAddr::TcpTls { host, .. } => {
            host.clone()
        }
        _ => String::new(),
    }
}

/// The slot of `key`: CRC-16/XMODEM of its hash tag, or of the whole key when it has none.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    State::<XMODEM>::calculate(hash_tag(key)) % SLOTS as u16
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    match key[open + 1..].iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

/// Reads the reply of `CLUSTER SLOTS`. A node that does not know its own host has the host that was `queried`.
fn ranges(reply: Value, queried: &str) -> Option<Vec<Range>> {
    let Value::Array(entries) = reply else {
        return None;
    };
    let read = |entry: &Value| {
        let [first, last, Value::Array(master), ..] = entry.as_sequence()? else {
            return None;
        };
        let [host, port, ..] = &master[..] else {
            return None;
        };
        let number = |value: &Value| redis::from_redis_value_ref(value).ok();
        let host: Option<String> = redis::from_redis_value_ref(host).ok()?;
        let host = host.filter(|host| !matches!(host.as_str(), "" | "?"));
        Some(Range {
            first: number(first)?,
            last: number(last)?,
            host: host.unwrap_or_else(|| queried.to_owned()),
            port: number(port)?,
        })
    };
    entries.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use redis::cluster_routing::Slot;

    use super::*;

    #[test]
    fn slot_ranges_are_parsed_and_empty_hosts_filled_in() {
        let reply = b"*2\r\n*3\r\n:0\r\n:99\r\n*4\r\n$1\r\na\r\n:1\r\n$2\r\nid\r\n*0\r\n\
            *3\r\n:100\r\n:16383\r\n*3\r\n$-1\r\n:2\r\n$2\r\nid\r\n";
        let reply = redis::parse_redis_value(reply).expect("a reply");
        let range = |first, last, host: &str, port| Range {
            first,
            last,
            host: host.into(),
            port,
        };
        let expected = vec![range(0, 99, "a", 1), range(100, 16383, "seed", 2)];
        assert_eq!(ranges(reply, "seed"), Some(expected));
        assert_eq!(ranges(Value::Nil, "seed"), None);
        assert_eq!(ranges(Value::Array(vec![Value::Int(1)]), "seed"), None);
    }

    #[test]
    fn slots_agree_with_the_cluster_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        for key in [
            "ba:{05f}:tenant:a",
            "{}x",
            "a{b",
            "ba:meta",
            "{a}{b}",
            "",
            "x{{y}}",
        ] {
            let computed = Slot::new(slot_of(key.as_bytes()));
            assert_eq!(Some(Slot::for_key(key)), computed, "{key}");
        }
    }
}
