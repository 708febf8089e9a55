//! `heartbeat.lua` and `lease.lua`: which dispatchers are alive, and which of them works on a partition.

use std::time::Duration;

use crate::domain::ids::Partition;
use crate::store::signature::signature;
use crate::store::{Lane, Store, StoreError, outcome};

signature! {
    /// Records that a dispatcher is alive, and returns all that are, in the order of their times. A silent dispatcher drops out
    /// by itself.
    HEARTBEAT: Heartbeat -> HeartbeatReply = "dispatcher/heartbeat", flags "allow-oom";
    keys of directory { write dispatchers(); }
    args {
        dispatcher: &'a str,
        duration_ms: Duration,
        /// stay or leave.
        action: &'a str,
    }
    replies { alive: Alive { now_ms: i64, dispatchers: Vec<String> } }
    writes "The list of dispatchers."
}

signature! {
    /// Makes one dispatcher the owner of a partition for a while, or renews its lease.
    ///
    /// A lease lapses with its time or its owner, so it may last long and be renewed rarely. The token rises with each new owner:
    /// a script that writes under the lease compares it, so that a former owner that wakes up late is refused (fencing).
    LEASE: LeaseCall -> LeaseReply = "dispatcher/lease", flags "allow-oom";
    names { partition: Partition }
    keys of partition { write lease(); }
    args {
        owner: &'a str,
        duration_ms: Duration,
        /// take or release.
        action: &'a str,
        /// Dispatchers, blanks between.
        alive: &'a str,
        /// A lease that was renewed within it stays: its owner may have just started.
        young_ms: Duration,
    }
    replies {
        held: Held { now_ms: i64, until_ms: i64 }, leased: Leased { token: i64, now_ms: i64 }, released: Released,
    }
    writes "On leased and released: the lease."
}

/// The right to work on a partition for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The leased partition.
    pub partition: Partition,
    /// Rises with each new owner. Scripts that write under the lease are given it and refuse a former owner's.
    pub token: i64,
}

impl Lease {
    /// The leased partition.
    pub fn partition(&self) -> Partition {
        self.partition
    }
}

/// The outcome of an attempt to take or renew a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is the caller's for the duration that was asked for.
    Mine(Lease),
    /// Another dispatcher's lease has not lapsed.
    Held,
}

impl Store {
    /// Records that `dispatcher` is alive for another `duration`, or takes it off the list at once; returns all that are alive,
    /// in order.
    pub async fn heartbeat(
        &self,
        dispatcher: &str,
        duration: Option<Duration>,
    ) -> Result<Vec<String>, StoreError> {
        let call = Heartbeat {
            dispatcher,
            duration_ms: duration.unwrap_or_default(),
            action: duration.map_or("leave", |_| "stay"),
        };
        let HeartbeatReply::Alive {
            mut dispatchers, ..
        } = outcome(self.run(Lane::Background, &call).await)?;
        dispatchers.sort_unstable();
        Ok(dispatchers)
    }

    /// Takes or renews the leases of `partitions` for `owner`, one of the dispatchers `alive`, in one pipeline per node.
    /// The lease of one that has been silent for `alive_for`, and so is not among them, counts as lapsed. `None` where Redis
    /// did not answer.
    ///
    /// # Errors
    /// [`StoreError`] when nothing could be asked at all, or a reply cannot be read.
    pub async fn take_leases(
        &self,
        owner: &str,
        duration: Duration,
        alive: &[String],
        alive_for: Duration,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Taken>>, StoreError> {
        let alive = alive.join(" ");
        let call = |partition: &Partition| LeaseCall {
            partition: *partition,
            owner,
            duration_ms: duration,
            action: "take",
            alive: &alive,
            young_ms: alive_for / 2,
        };
        let calls: Vec<_> = partitions.iter().map(call).collect();
        let mut taken = Vec::with_capacity(partitions.len());
        for (partition, reply) in partitions.iter().zip(self.run_each(&calls).await?) {
            taken.push(match reply {
                Ok(LeaseReply::Leased { token, .. }) => Some(Taken::Mine(Lease {
                    partition: *partition,
                    token,
                })),
                Ok(LeaseReply::Held { .. } | LeaseReply::Released) => Some(Taken::Held),
                Err(error @ StoreError::Reply { .. }) => return Err(error),
                Err(_) => None,
            });
        }
        Ok(taken)
    }

    /// Gives the leases of `partitions` back, so that others need not wait until they lapse.
    ///
    /// # Errors
    /// [`StoreError`] when nothing could be asked at all.
    pub async fn release_leases(
        &self,
        owner: &str,
        partitions: &[Partition],
    ) -> Result<(), StoreError> {
        let call = |partition: &Partition| LeaseCall {
            partition: *partition,
            owner,
            duration_ms: Duration::ZERO,
            action: "release",
            alive: "",
            young_ms: Duration::ZERO,
        };
        let calls: Vec<_> = partitions.iter().map(call).collect();
        self.run_each(&calls).await.map(drop)
    }
}
