//! `members.lua` and `lease.lua`: which dispatchers are alive, and which of them works on a partition.

use std::time::Duration;

use redis::Value;

use crate::domain::ids::Partition;
use crate::script_args;
use crate::store::scripts::{LEASE, MEMBERS};
use crate::store::{Arg, Lane, Reply, Store, StoreError};

/// The right to work on a partition for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// What may be worked on.
    pub partition: Partition,
    /// Rises with each new owner. Scripts that write under the lease are given it and refuse a former owner's.
    pub token: i64,
}

/// What became of an attempt to take or renew a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is the caller's for the duration that was asked for.
    Mine(Lease),
    /// Another dispatcher's lease has not lapsed.
    Held,
}

impl Store {
    /// Tells that `dispatcher` is alive for another `duration`, and answers who is, in order.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn stay_member(
        &self,
        dispatcher: &str,
        duration: Duration,
    ) -> Result<Vec<String>, StoreError> {
        self.members(dispatcher, duration, "stay").await
    }

    /// Takes `dispatcher` off the list at once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn leave_members(&self, dispatcher: &str) -> Result<(), StoreError> {
        self.members(dispatcher, Duration::ZERO, "leave")
            .await
            .map(drop)
    }

    async fn members(
        &self,
        dispatcher: &str,
        duration: Duration,
        action: &str,
    ) -> Result<Vec<String>, StoreError> {
        let keys = [self.keys().dispatchers()];
        let args = script_args![dispatcher, duration.as_millis() as i64, action];
        let value = self
            .call_on(Lane::Background, &MEMBERS, &keys, args)
            .await?;
        let mut reply = Reply::new(&MEMBERS, value)?;
        match reply.next_str()?.as_str() {
            "members" => {
                reply.next_i64()?;
                let mut members = reply.rest()?;
                members.sort_unstable();
                Ok(members)
            }
            other => Err(reply.unknown(other)),
        }
    }

    /// Takes or renews the leases of `partitions` for `owner`, one of the dispatchers `alive`, in one pipeline per node.
    /// The lease of one that has been silent for `alive_for`, and so is not among them, counts as lapsed. `None` where Redis gave no answer.
    ///
    /// # Errors
    /// [`StoreError`] when nothing could be asked at all, or an answer is not understood.
    pub async fn take_leases(
        &self,
        owner: &str,
        duration: Duration,
        alive: &[String],
        alive_for: Duration,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Taken>>, StoreError> {
        let alive = alive.join(" ");
        let young = alive_for.as_millis() as i64 / 2;
        let args = script_args![owner, duration.as_millis() as i64, "take", &alive, young];
        let replies = self.lease(partitions, args).await?;
        let taken = |(reply, partition): (Option<Value>, &Partition)| match reply {
            Some(reply) => read(reply, *partition).map(Some),
            None => Ok(None),
        };
        replies.into_iter().zip(partitions).map(taken).collect()
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
        let args = script_args![owner, 0_i64, "release", "", 0_i64];
        self.lease(partitions, args).await.map(drop)
    }

    async fn lease(
        &self,
        partitions: &[Partition],
        args: &[Arg<'_>],
    ) -> Result<Vec<Option<Value>>, StoreError> {
        let keys: Vec<_> = partitions.iter().map(|p| self.keys().lease(*p)).collect();
        self.call_each(&LEASE, &keys, args).await
    }
}

fn read(reply: Value, partition: Partition) -> Result<Taken, StoreError> {
    let mut reply = Reply::new(&LEASE, reply)?;
    match reply.next_str()?.as_str() {
        "leased" => Ok(Taken::Mine(Lease {
            partition,
            token: reply.next_i64()?,
        })),
        "held" => Ok(Taken::Held),
        other => Err(reply.unknown(other)),
    }
}
