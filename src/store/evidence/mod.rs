//! Signed envelopes, byte for byte as they are served, and the issuers that sign them.

pub mod unsigned;

use std::collections::HashMap;

use redis::{Cmd, Value};
use tokio::task::JoinSet;

use crate::domain::ids::{EvidenceId, TenantId};
use crate::driver::call::Request;
use crate::store::records::{NO_ARGS, command, read_reply};
use crate::store::signature::{Counted, signature};
use crate::store::{Day, Lane, OnFailure, Store, StoreError};

signature! {
    /// Gives the issuers of a configuration their numbers, and registers those that are new.
    REGISTER_ISSUERS: RegisterIssuers -> RegisterIssuersReply = "deployment/register_issuers", flags "allow-oom";
    keys of directory { write issuers(); }
    args {
        /// How far ahead what changes the signing key must lie.
        ahead_ms: i64,
        /// What the caller has read before, since the store may have lost it. Of each: number, from_ms, until_ms or open, server
        /// id, signer.
        known: Counted<&'a [String]>,
        /// Of each: from_ms, until_ms or open, server id, signer, and the signer's name in the other form, which it keeps if it
        /// is registered by it. In the order of their windows, which do not overlap.
        given: &'a [String],
    }
    replies {
        damaged: Damaged { number: String },
        renumbered: Renumbered { number: String },
        contradicted: Contradicted { rule: String, given: i64, registered: Option<String>, now_ms: i64 },
        registered: Recorded { issuers: Vec<(i64, String)> },
    }
    writes "On registered: numbers of new issuers, ends of open windows, and what was lost of those that the caller knows."
}

/// What Redis takes beside the bytes of an envelope: its key, its time, and where both are.
const BESIDE_ENVELOPE: usize = 190;

/// Bytes of envelopes that go out at once.
const SENT_BYTES: usize = 1 << 20;

impl Store {
    /// An envelope; `None` where there is none of this id, or none yet. Anybody may ask, so it has a connection of its own.
    ///
    /// # Errors
    /// As for [`Store::send`].
    pub async fn envelope(&self, id: &EvidenceId) -> Result<Option<Vec<u8>>, StoreError> {
        let get = command("GET", self.envelope_key(id), NO_ARGS);
        read_reply(self.send(Lane::Public, &get).await?)
    }

    /// Writes envelopes, each for `ttl_ms` milliseconds from now, or for ever. Writing one again writes the same bytes, and its time
    /// begins anew. They are sent a megabyte at a time, but at least one.
    ///
    /// Returns of each whether it is written, also to as many replicas as `BUDGET_REDIS_WAIT` requires: not while its node is out of
    /// reach or full.
    ///
    /// # Errors
    /// [`StoreError`] of other kinds.
    pub async fn write_envelopes(
        &self,
        envelopes: &[(EvidenceId, impl AsRef<[u8]>)],
        ttl_ms: Option<i64>,
    ) -> Result<Vec<bool>, StoreError> {
        let mut written = Vec::with_capacity(envelopes.len());
        while written.len() < envelopes.len() {
            let left = &envelopes[written.len()..];
            let sizes = left.iter().map(|(_, bytes)| bytes.as_ref().len());
            let sent = &left[..sent_at_once(sizes)];
            let set = |(id, bytes): &(EvidenceId, _)| {
                let (key, mut set) = command("SET", self.envelope_key(id), AsRef::as_ref(bytes));
                if let Some(ttl_ms) = ttl_ms {
                    set.arg("PX").arg(ttl_ms);
                }
                (key, set)
            };
            let commands: Vec<_> = sent.iter().map(set).collect();
            if self.inner.options.wait > 0 {
                written.extend(self.write_replicated(commands).await);
                continue;
            }
            match self.send_each(&commands, OnFailure::Skip).await {
                Ok(replies) => {
                    written.extend(replies.iter().map(|reply| matches!(reply, Ok(Value::Okay))));
                }
                // The others may belong to another node.
                Err(StoreError::Unavailable(_) | StoreError::Full) => {
                    written.resize(written.len() + sent.len(), false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Counts envelopes, which lie in other partitions, for the tenants that they are of: of each its tenant and length. `ttl_ms` as for
    /// [`Store::write_envelopes`]. Where a count has another type, nothing is counted.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn count_envelopes(
        &self,
        written: impl IntoIterator<Item = (TenantId, usize)>,
        ttl_ms: Option<i64>,
    ) -> Result<(), StoreError> {
        let mut taken: HashMap<TenantId, i64> = HashMap::new();
        for (tenant, length) in written {
            // The allocator has four sizes from one power of two to the next.
            let step = (length.next_power_of_two() / 8).max(8);
            let bytes = length.next_multiple_of(step) + BESIDE_ENVELOPE;
            *taken.entry(tenant).or_default() += i64::try_from(bytes).unwrap_or(0);
        }
        let until = ttl_ms.map(|ttl_ms| Day::of_ms(self.clock().now_ms().saturating_add(ttl_ms)));
        let until = until.map_or_else(|| "never".to_owned(), |until| until.to_string());
        let key = |tenant: &TenantId| self.keys().envelopes(tenant.partition(), tenant.as_str());
        let count =
            |(tenant, bytes): (&TenantId, &i64)| command("HINCRBY", key(tenant), (&until, bytes));
        let counted = self.read_each(OnFailure::Skip, taken.iter().map(count));
        let counted: Vec<Result<i64, _>> = counted.await?;
        let (today, mut gone) = (self.today().to_string(), Vec::new());
        for ((tenant, bytes), counted) in taken.iter().zip(counted) {
            // The first of its day. Every day is before `never`.
            if counted.is_ok_and(|counted| counted == *bytes) {
                let days: Vec<String> = self.read(command("HKEYS", key(tenant), NO_ARGS)).await?;
                let days: Vec<_> = days.into_iter().filter(|day| *day < today).collect();
                gone.extend((!days.is_empty()).then(|| command("HDEL", key(tenant), days)));
            }
        }
        self.send_each(&gone, OnFailure::Skip).await.map(drop)
    }

    /// Sends writes over the connections whose replies wait for replicas. Returns of each whether enough replicas have it.
    async fn write_replicated(&self, commands: Vec<(String, Cmd)>) -> Vec<bool> {
        let mut writes = JoinSet::new();
        let mut written = vec![false; commands.len()];
        for (index, (key, command)) in commands.into_iter().enumerate() {
            let store = self.clone();
            writes.spawn(async move {
                let mark = store.keys().replicated_beside(&key);
                let request = Request {
                    mark: Some(&mark),
                    ..Request::from((&key, &command))
                };
                (index, store.send(Lane::Request, request).await)
            });
        }
        for (index, reply) in writes.join_all().await {
            written[index] = matches!(reply, Ok(Value::Okay));
        }
        written
    }

    /// Whether each of these envelopes is stored; `None` where its node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn envelopes_found(
        &self,
        ids: &[EvidenceId],
    ) -> Result<Vec<Option<bool>>, StoreError> {
        let exists = |id| command("EXISTS", self.envelope_key(id), NO_ARGS);
        let found = self.read_each(OnFailure::Skip, ids.iter().map(exists));
        Ok(found.await?.into_iter().map(Result::ok).collect())
    }

    fn envelope_key(&self, id: &EvidenceId) -> String {
        self.keys().evidence(id.partition(), id.as_str())
    }
}

/// How many of these sizes in bytes go out at once.
fn sent_at_once(sizes: impl Iterator<Item = usize>) -> usize {
    let totals = sizes.scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    totals.take_while(|sum| *sum <= SENT_BYTES).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_up_to_a_megabyte_and_at_least_one_envelope() {
        for (sizes, count) in [
            (&[SENT_BYTES][..], 1),
            (&[SENT_BYTES + 1, 1], 1),
            (&[SENT_BYTES - 1, 1, 1], 2),
            (&[1, SENT_BYTES, 1], 1),
            (&[10, 10, 10], 3),
        ] {
            assert_eq!(sent_at_once(sizes.iter().copied()), count, "{sizes:?}");
        }
    }
}
