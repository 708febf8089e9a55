//! Moves a slot of a Redis Cluster from its master to another, key by key; also around the kill of a master.

use super::eventually_blocking;
use super::redis::{RedisCluster, RedisServer};

/// A migrating slot.
pub struct Resharding<'a> {
    cluster: &'a RedisCluster,
    source: &'a RedisServer,
    target: &'a RedisServer,
    slot: String,
}

/// A slot whose move is suspended, so that a master can be killed meanwhile.
pub struct HalfMoved {
    source: u16,
    target: u16,
    slot: String,
}

impl<'a> Resharding<'a> {
    /// Opens the slot of `key` on both sides; no key has moved yet.
    pub fn begin(cluster: &'a RedisCluster, key: &str) -> Self {
        let (source, slot) = cluster.owner(key);
        let others = cluster.masters.iter();
        let others: Vec<_> = others.filter(|master| master.port != source.port).collect();
        let target = others[rand::random_range(0..others.len())];
        let slot = slot.to_string();
        let id = |node: &RedisServer| node.run::<String>(&["CLUSTER", "MYID"]);
        let (from, to) = (id(source), id(target));
        target.run::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from]);
        source.run::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to]);
        Self {
            cluster,
            source,
            target,
            slot,
        }
    }

    /// Stops between two keys; the slot stays half moved.
    pub fn suspend(self) -> HalfMoved {
        HalfMoved {
            source: self.source.port,
            target: self.target.port,
            slot: self.slot,
        }
    }

    /// Continues the move of a slot after [`Resharding::suspend`].
    pub fn resume(cluster: &'a RedisCluster, suspended: HalfMoved) -> Self {
        let master = |port| {
            let found = cluster.masters.iter().find(|master| master.port == port);
            found.expect("a master")
        };
        Self {
            cluster,
            source: master(suspended.source),
            target: master(suspended.target),
            slot: suspended.slot,
        }
    }

    /// The keys that have not moved yet, at most a hundred.
    pub fn waiting(&self) -> Vec<String> {
        let (slot, count) = (&self.slot, "100");
        self.source.run(&["CLUSTER", "GETKEYSINSLOT", slot, count])
    }

    /// Moves one key, if it is still there.
    pub fn migrate(&self, key: &str) {
        self.migrate_all(&[key]);
    }

    /// Moves these keys at once, as far as they are still there.
    fn migrate_all(&self, keys: &[impl AsRef<str>]) {
        let port = self.target.port.to_string();
        let mut moved = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        moved.extend(keys.iter().map(AsRef::as_ref));
        let reply: String = self.source.run(&moved);
        assert!(reply == "OK" || reply == "NOKEY", "{reply}");
    }

    /// Moves what is left and gives the slot to its new master.
    pub fn finish(self) {
        loop {
            let keys = self.waiting();
            if keys.is_empty() {
                break;
            }
            self.migrate_all(&keys);
        }
        let owner: String = self.target.run(&["CLUSTER", "MYID"]);
        for node in [self.target, self.source] {
            node.run::<()>(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &owner]);
        }
        // Two moves at once can leave a slot without a master, because each side takes the other's word.
        let slot = self.slot.parse().expect("a slot");
        eventually_blocking("all masters know of the move", || {
            let views = self.cluster.masters.iter();
            let views: Vec<_> = views
                .map(|master| self.cluster.view(master, slot))
                .collect();
            views[0].0 == Some(self.target.port) && views.iter().all(|view| *view == views[0])
        });
    }
}

impl RedisCluster {
    /// Waits until every master serves and sees all others serve.
    pub fn until_whole(&self) {
        let signs = ["state:ok", "slots_pfail:0", "slots_fail:0"];
        let sees_all = |master: &RedisServer| {
            let info: String = master.run(&["CLUSTER", "INFO"]);
            let says = |sign: &&str| info.contains(&format!("cluster_{sign}\r"));
            signs.iter().all(says)
        };
        eventually_blocking("the cluster is whole", || self.masters.iter().all(sees_all));
    }
}
