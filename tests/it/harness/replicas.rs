//! Replicas: of one master, without anything that fails over by itself, and of a master of a cluster.

use super::eventually_blocking;
use super::redis::{RedisServer, free_port};

/// A master and its replica.
pub struct RedisPair {
    pub master: RedisServer,
    pub replica: RedisServer,
}

impl RedisPair {
    /// Starts both and waits until the replica is in step.
    pub fn start() -> Self {
        let master = RedisServer::start();
        let follow = format!("127.0.0.1 {}", master.port);
        let replica = following(&master, &["--replicaof", &follow]);
        let pair = Self { master, replica };
        pair.until_in_step();
        pair
    }

    /// Waits until the master has its replica in step.
    pub fn until_in_step(&self) {
        until_in_step(&self.master);
    }
}

/// Cuts the connection to the replicas, which are frozen: what is written now reaches none of them.
pub fn cut_off(master: &RedisServer, replica: &RedisServer) {
    replica.freeze();
    master.run::<i64>(&["CLIENT", "KILL", "TYPE", "replica"]);
}

/// A replica of a master of a cluster, once it is in step.
pub fn cluster_replica(master: &RedisServer) -> RedisServer {
    let bus = free_port().to_string();
    let settings = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    let replica = following(
        master,
        &[&settings[..], &["--cluster-node-timeout", "1000"]].concat(),
    );
    let port = replica.port.to_string();
    master.run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    let id: String = master.run(&["CLUSTER", "MYID"]);
    eventually_blocking("the replica knows its master", || {
        let nodes: String = replica.run(&["CLUSTER", "NODES"]);
        nodes.contains(&id)
    });
    replica.run::<()>(&["CLUSTER", "REPLICATE", &id]);
    until_in_step(master);
    replica
}

fn following(master: &RedisServer, settings: &[&str]) -> RedisServer {
    // By default a master waits 5 s for more replicas to come before it sends its data.
    master.run::<()>(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    RedisServer::start_with(settings)
}

fn until_in_step(master: &RedisServer) {
    eventually_blocking("the replica is in step", || {
        let info: String = master.run(&["INFO", "replication"]);
        info.contains("state=online")
    });
}
