//! Signs evidence: follows the streams of the leased partitions, and writes the envelope of each entry under its id.
//!
//! An entry leaves its stream once its envelope is written, with as many replicas as `BUDGET_REDIS_WAIT` requires. The signer
//! keeps its place in memory only: a dispatcher that takes a partition over begins at the first entry that is left. Signing one
//! twice writes the same bytes.

mod cursor;
mod envelopes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, error, warn};

use super::issuing::Issuing;
use super::keys::SigningKey;
use super::statements::FIELDS;
use crate::domain::ids::{EvidenceId, Partition, TenantId};
use crate::metrics::metrics;
use crate::store::evidence::unsigned::{Queued, ReadBounds, UnsignedEntry};
use crate::store::{Lease, Store, StoreError};
use cursor::Cursor;
use envelopes::{Outcome, Signers};

/// Entries that are read and signed at once. One partition may have all of them, since each pass looks at every leased one.
const BATCH: usize = 2_000;

/// Partitions that are read at once.
const PARTITIONS: usize = 64;

/// Bytes of entries and records that are read at once; more only if one entry has more.
const READ_BYTES: usize = 1 << 20;

metrics! {
    /// Metrics of the signer.
    pub struct SignerMetrics {
        /// Entries of evidence, by outcome.
        pub entries: IntCounterVec["outcome"] = "budget_evidence_entries_total",
        /// Age of the oldest entry without an envelope.
        pub oldest_unsigned_seconds: Gauge = "budget_evidence_oldest_unsigned_seconds",
        /// From the decision to the stored envelope.
        pub delay: Histogram buckets [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0, 300.0] = "budget_evidence_delay_seconds",
        /// Entries in quarantine in the leased partitions.
        pub quarantined: Gauge = "budget_evidence_quarantined",
    }
}

/// The range of a stream to read.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// Those that were not read yet.
    New,
    /// Those that are still there.
    Again,
}

/// The result of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignerPass {
    /// Envelopes written.
    pub signed: usize,
    /// Entries put into quarantine.
    pub quarantined: usize,
    /// Whether more is queued.
    pub more: bool,
}

/// Signs evidence.
pub struct Signer {
    store: Store,
    issuing: Issuing,
    keys: Arc<[SigningKey]>,
    ttl_ms: Option<i64>,
    cursors: HashMap<Partition, Cursor>,
    /// How many entries each stream had at the start of the pass.
    queued: HashMap<Partition, usize>,
    pass: SignerPass,
    metrics: SignerMetrics,
}

impl Signer {
    /// Signs with `keys` for the issuers of `issuing`. `retention`: how long envelopes are kept; `None` for ever.
    pub fn new(
        store: Store,
        issuing: Issuing,
        keys: Vec<SigningKey>,
        retention: Option<Duration>,
        metrics: SignerMetrics,
    ) -> Self {
        Self {
            store,
            issuing,
            keys: keys.into(),
            ttl_ms: retention.map(|kept| i64::try_from(kept.as_millis()).unwrap_or(i64::MAX)),
            cursors: HashMap::new(),
            queued: HashMap::new(),
            pass: SignerPass::default(),
            metrics,
        }
    }

    /// Does one bounded pass over the partitions of `leases`: signs what is queued after the cursors.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn run_once(&mut self, leases: &[Lease]) -> Result<SignerPass, StoreError> {
        self.pass = SignerPass::default();
        let leased: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        self.queued = HashMap::from_iter(self.store.with_unsigned(&leased).await?);
        // Whatever an empty stream will hold is new.
        self.cursors
            .retain(|partition, _| self.queued.contains_key(partition));
        if self.queued.is_empty() {
            return Ok(self.pass);
        }
        let signers = Signers {
            registry: self.issuing.registry(&self.store).await?,
            issuing: self.issuing.clone(),
            keys: Arc::clone(&self.keys),
        };
        let now = Instant::now();
        let (mut ends, mut retries) = (Vec::new(), Vec::new());
        for partition in self.queued.keys() {
            let cursor = self.cursors.entry(*partition).or_default();
            ends.push((*partition, cursor.end));
            retries.extend(cursor.retry(now).map(|place| (*partition, place)));
        }
        let new = self.sign_after(&signers, Reading::New, &ends).await;
        let again = self.sign_after(&signers, Reading::Again, &retries).await;
        new.and(again).map(|()| self.pass)
    }

    /// Signs what is queued after places, where the first entry is large one place at a time.
    async fn sign_after(
        &mut self,
        signers: &Signers,
        reading: Reading,
        places: &[Queued],
    ) -> Result<(), StoreError> {
        let (mut large, mut signed) = (Vec::new(), Ok(()));
        for some in places.chunks(PARTITIONS) {
            let batch = self.sign_batch(signers, reading, some).await;
            signed = signed.and(batch.map(|unread| large.extend(unread)));
        }
        for place in large {
            let batch = self.sign_batch(signers, reading, &[place]).await;
            signed = signed.and(batch.map(|_| ()));
        }
        signed
    }

    /// Signs what is queued after places. Returns those whose first entry is too large to be read beside others.
    async fn sign_batch(
        &mut self,
        signers: &Signers,
        reading: Reading,
        places: &[Queued],
    ) -> Result<Vec<Queued>, StoreError> {
        let bounds = ReadBounds {
            rows: BATCH / places.len(),
            bytes: READ_BYTES / places.len(),
            at_least_one: places.len() == 1,
        };
        let read = self.store.read_unsigned(places, bounds, &FIELDS).await?;
        let (mut entries, mut batches, mut large) = (Vec::new(), Vec::new(), Vec::new());
        for (place, read) in places.iter().zip(read) {
            let Some(read) = read else { continue };
            let last = read.entries.last().map(|entry| entry.place.1);
            match (last, read.next) {
                (None, Some(_)) => large.push(*place),
                (last, next) => batches.push((place.0, read.entries.len(), last, next.is_none())),
            }
            entries.extend(read.entries);
        }
        let removed = self.sign(signers, entries).await;
        let now = Instant::now();
        for (partition, count, last, is_end) in batches {
            let removed = removed.get(&partition).copied().unwrap_or_default();
            let cursor = self.cursors.entry(partition).or_default();
            let is_left = match reading {
                Reading::New => {
                    cursor.end = cursor.end.max(last.unwrap_or_default());
                    self.pass.more |= !is_end;
                    is_end
                        && self
                            .queued
                            .get(&partition)
                            .is_some_and(|all| *all > removed)
                }
                Reading::Again => {
                    cursor.retried_to(last.filter(|_| !is_end), removed > 0);
                    self.pass.more |= removed > 0 && cursor.retried.is_some();
                    false
                }
            };
            if is_left || count > removed {
                cursor.retry_later(now);
            }
        }
        Ok(large)
    }

    /// Signs entries, and removes those that are done from their streams. Returns how many that were, by partition.
    async fn sign(
        &mut self,
        signers: &Signers,
        entries: Vec<UnsignedEntry>,
    ) -> HashMap<Partition, usize> {
        let (mut signed, mut done, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        let mut removed = HashMap::new();
        for (place, outcome) in envelopes::sign(signers, entries).await {
            match outcome {
                Outcome::Signed(id, bytes, tenant) => signed.push((place, id, bytes, tenant)),
                Outcome::Rounded => {
                    self.count("unrepresentable_number");
                    done.push(place);
                }
                Outcome::Unknown(id, why) => unknown.push((place, id, why)),
                Outcome::Damaged(why) => {
                    if self.quarantine(place, &why).await {
                        *removed.entry(place.0).or_default() += 1;
                    }
                }
            }
        }
        done.extend(self.write(signed).await);
        done.extend(self.signed_elsewhere(unknown).await);
        if done.is_empty() {
            return removed;
        }
        let dropped = self.store.drop_unsigned(&done).await;
        let dropped = dropped.unwrap_or_else(|_| vec![false; done.len()]);
        for ((partition, _), _) in done.iter().zip(dropped).filter(|(_, is_gone)| *is_gone) {
            *removed.entry(*partition).or_default() += 1;
        }
        removed
    }

    /// Writes envelopes. Returns the entries whose envelope is written; the others are signed again.
    async fn write(
        &mut self,
        signed: Vec<(Queued, EvidenceId, String, Option<TenantId>)>,
    ) -> Vec<Queued> {
        let envelopes: Vec<_> = signed
            .iter()
            .map(|(_, id, bytes, _)| (id.clone(), bytes.as_bytes()))
            .collect();
        let written = self.store.write_envelopes(&envelopes, self.ttl_ms).await;
        let written = written.unwrap_or_else(|error| {
            error!(%error, "envelopes cannot be stored: {error}");
            vec![false; envelopes.len()]
        });
        let now_ms = self.store.clock().now_ms();
        let (mut done, mut stored) = (Vec::new(), Vec::new());
        for ((place, _, bytes, tenant), is_written) in signed.into_iter().zip(written) {
            if !is_written {
                self.count("failed");
                continue;
            }
            self.pass.signed += 1;
            self.count("signed");
            let delay_ms = now_ms.saturating_sub_unsigned(place.1.ms).max(0);
            self.metrics.delay.observe(delay_ms as f64 / 1000.0);
            stored.extend(tenant.map(|tenant| (tenant, bytes.len())));
            done.push(place);
        }
        if let Err(error) = self.store.count_envelopes(stored, self.ttl_ms).await {
            debug!(%error, "envelopes are not counted: {error}");
        }
        done
    }

    /// Of entries that this dispatcher cannot sign, those whose envelope another one has written. The others stay in the stream,
    /// and one warning per partition gives the reason.
    async fn signed_elsewhere(
        &mut self,
        unknown: Vec<(Queued, Option<EvidenceId>, String)>,
    ) -> Vec<Queued> {
        let ids: Vec<EvidenceId> = unknown.iter().filter_map(|(_, id, _)| id.clone()).collect();
        let mut found = match ids.is_empty() {
            true => Vec::new(),
            false => self.store.envelopes_found(&ids).await.unwrap_or_default(),
        }
        .into_iter();
        let mut done = Vec::new();
        for ((partition, entry), id, why) in unknown {
            if id.is_some() && found.next() == Some(Some(true)) {
                done.push((partition, entry));
                continue;
            }
            self.count("unknown");
            let cursor = self.cursors.entry(partition).or_default();
            if !std::mem::replace(&mut cursor.is_reported, true) {
                warn!(%partition, %entry, "evidence entry {entry} of {partition} waits for another dispatcher: {why}");
            }
        }
        done
    }

    /// Moves an entry into quarantine. Returns whether it has left the stream; if not, it is tried again.
    async fn quarantine(&mut self, place: Queued, why: &str) -> bool {
        let (partition, entry) = place;
        match self.store.quarantine_unsigned(place, why).await {
            Ok(true) => {
                error!(
                    %partition, %entry,
                    "evidence entry {entry} of {partition} cannot be signed and is in quarantine now: {why}"
                );
                self.count("quarantined");
                self.pass.quarantined += 1;
            }
            Ok(false) => debug!(%partition, %entry, "another dispatcher has moved it"),
            Err(error) => {
                debug!(%error, "evidence cannot be put into quarantine yet: {error}");
                return false;
            }
        }
        true
    }

    fn count(&self, outcome: &str) {
        self.metrics.entries.with_label_values(&[outcome]).inc();
    }
}
