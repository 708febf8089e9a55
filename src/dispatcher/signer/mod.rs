//! Signs evidence: follows the streams of the leased partitions, and keeps the envelope of each entry under its id.
//!
//! An entry leaves its stream once its envelope was found a minute after it was signed, so a failover that loses the envelope
//! loses no evidence: it is signed again, to the same bytes. What this dispatcher has signed is known to its memory alone. Who
//! takes a partition over begins at the first entry that is left, and does again what may have been done, which changes nothing.

mod again;
mod confirm;
mod envelopes;
mod oldest;
mod partition;
mod waiting;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, error};

use super::due::partitions;
use super::sweep::ClockWatch;
use super::workers::{Next, lease_worker};
use crate::config::SigningConfig;
use crate::domain::ids::{EvidenceId, Partition};
use crate::ledger::statements::FIELDS;
use crate::metrics::metrics;
use crate::store::dispatcher::unsigned::{Queued, ReadBounds, UnsignedEntry, UnsignedRead};
use crate::store::{Issuing, Lease, Store, StoreError};
use envelopes::{Outcome, Signers};
use partition::{CONFIRMED_AFTER, Followed};
pub use watch::UnsignedWatch;

/// The pause while nothing is queued: evidence can be read within a second.
const IDLE: Duration = Duration::from_millis(250);

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
        /// Age of the oldest entry that could not be signed yet.
        pub oldest_unsigned_seconds: Gauge = "budget_evidence_oldest_unsigned_seconds",
        /// From the decision to the stored envelope.
        pub delay: Histogram buckets [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0, 300.0] = "budget_evidence_delay_seconds",
        /// Entries in quarantine in the leased partitions.
        pub quarantined: Gauge = "budget_evidence_quarantined",
    }
}

impl SignerMetrics {
    /// Of these entries, by how long each has waited.
    fn show_oldest(&self, ages: impl Iterator<Item = Duration>) {
        let oldest = ages.max().unwrap_or_default();
        self.oldest_unsigned_seconds.set(oldest.as_secs_f64());
    }
}

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignerPass {
    /// Envelopes kept.
    pub signed: usize,
    /// Entries removed whose envelope was found.
    pub confirmed: usize,
    /// Entries put into quarantine.
    pub quarantined: usize,
    /// Whether more is queued.
    pub more: bool,
}

impl SignerPass {
    fn next(&self) -> Next {
        if self.more {
            Next::Now
        } else {
            Next::After(IDLE)
        }
    }
}

/// Signs evidence.
pub struct Signer {
    store: Store,
    clock: ClockWatch,
    config: SigningConfig,
    issuing: Issuing,
    ttl_ms: Option<i64>,
    confirmed_after: Duration,
    followed: HashMap<Partition, Followed>,
    counted_at: Option<Instant>,
    /// The age of the oldest entry that should have left its stream by now.
    old: Option<Duration>,
    metrics: SignerMetrics,
}

impl Signer {
    /// A worker that signs with the keys of `config`, for the issuers of `issuing`. `clock` tells whether the store's jumped.
    pub fn new(
        store: Store,
        clock: ClockWatch,
        config: SigningConfig,
        issuing: Issuing,
        metrics: SignerMetrics,
    ) -> Self {
        let retention = config.evidence.retention;
        let ttl_ms = retention.map(|kept| i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
        Self {
            store,
            clock,
            config,
            issuing,
            ttl_ms,
            confirmed_after: CONFIRMED_AFTER,
            followed: HashMap::new(),
            counted_at: None,
            old: None,
            metrics,
        }
    }

    /// With another time after which an envelope must be found.
    #[must_use]
    pub fn confirming_after(mut self, after: Duration) -> Self {
        self.confirmed_after = after;
        self
    }

    /// Does one bounded pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn run_once(&mut self, leases: &[Lease]) -> Result<SignerPass, StoreError> {
        let mut pass = SignerPass::default();
        let leased = partitions(leases);
        self.followed
            .retain(|partition, _| leased.contains(partition));
        for partition in &leased {
            self.followed.entry(*partition).or_default();
        }
        // Whatever fails, the rest is done: what is confirmed frees memory, and the gauge must tell.
        self.confirm(&mut pass).await;
        let signed = self.sign_new(&leased, &mut pass).await;
        let again = self.sign_again(&mut pass).await;
        let told = self.gauge(&leased).await;
        signed.and(again).and(told).map(|()| pass)
    }

    /// Signs what lies beyond the places that were reached.
    async fn sign_new(
        &mut self,
        leased: &[Partition],
        pass: &mut SignerPass,
    ) -> Result<(), StoreError> {
        let mut places: Vec<Queued> = Vec::new();
        for (partition, count) in self.store.with_unsigned(leased).await? {
            if let Some(followed) = self.followed.get_mut(&partition) {
                followed.queued = count;
                places.push((partition, followed.after));
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        let signers = self.signers().await?;
        let (mut large, mut signed) = (Vec::new(), Ok(()));
        for some in places.chunks(PARTITIONS) {
            let beyond = self.sign_beyond(&signers, some, &mut large, pass).await;
            signed = signed.and(beyond);
        }
        for place in std::mem::take(&mut large) {
            let beyond = self.sign_beyond(&signers, &[place], &mut large, pass).await;
            signed = signed.and(beyond);
        }
        signed
    }

    /// Signs what lies beyond places. Where the first entry is too large to be read beside others, its place is `large`.
    async fn sign_beyond(
        &mut self,
        signers: &Arc<Signers>,
        places: &[Queued],
        large: &mut Vec<Queued>,
        pass: &mut SignerPass,
    ) -> Result<(), StoreError> {
        let read = self.read(places, BATCH / places.len()).await?;
        let mut entries = Vec::new();
        for (place, read) in places.iter().zip(read) {
            let Some(read) = read else { continue };
            match read.entries.is_empty() && read.next.is_some() {
                true => large.push(*place),
                false => pass.more |= read.next.is_some(),
            }
            if let (None, Some(followed)) = (read.next, self.followed.get_mut(&place.0)) {
                followed.reached_end(read.entries.len());
            }
            entries.extend(read.entries);
        }
        let reached: Vec<Queued> = entries.iter().map(|entry| entry.place).collect();
        self.sign(signers, entries, pass).await;
        for (partition, place) in reached {
            if let Some(followed) = self.followed.get_mut(&partition) {
                followed.after = followed.after.max(place);
            }
        }
        Ok(())
    }

    /// So many entries behind each place, in a reply of a bounded size; one at least if there is but one place.
    async fn read(
        &self,
        places: &[Queued],
        rows: usize,
    ) -> Result<Vec<Option<UnsignedRead>>, StoreError> {
        let bounds = ReadBounds {
            rows,
            bytes: READ_BYTES / places.len(),
            at_least_one: places.len() == 1,
        };
        self.store.read_unsigned(places, bounds, &FIELDS).await
    }

    /// Who signs, as far as it is known by now.
    async fn signers(&self) -> Result<Arc<Signers>, StoreError> {
        Ok(Arc::new(Signers {
            registry: self.issuing.registry(&self.store).await?,
            config: self.config.clone(),
        }))
    }

    /// Signs entries. What a lost node prevents waits for the next try.
    async fn sign(
        &mut self,
        signers: &Arc<Signers>,
        entries: Vec<UnsignedEntry>,
        pass: &mut SignerPass,
    ) {
        let (mut signed, mut done, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for (place, outcome) in envelopes::sign(signers, entries).await {
            match outcome {
                Outcome::Signed(id, bytes) => signed.push((place, id, bytes)),
                Outcome::Rounded => done.push(place),
                Outcome::Unknown(id, why) => left.push((place, id, why)),
                Outcome::Damaged(why) => self.quarantine(place, &why, pass).await,
            }
        }
        self.keep(signed, pass).await;
        self.leave(left).await;
        self.drop_rounded(done).await;
    }

    /// Removes entries that have no envelope, since it would round a number. One that is still there is tried again.
    async fn drop_rounded(&mut self, entries: Vec<Queued>) {
        if entries.is_empty() {
            return;
        }
        let dropped = self.store.drop_unsigned(&entries).await;
        let dropped = dropped.unwrap_or_else(|_| vec![false; entries.len()]);
        for (place, is_gone) in entries.into_iter().zip(dropped) {
            match is_gone {
                true => self.count("unrepresentable_number"),
                false => self.again(place),
            }
        }
    }

    /// Keeps envelopes. One whose node is out of reach is signed again.
    async fn keep(&mut self, signed: Vec<(Queued, EvidenceId, String)>, pass: &mut SignerPass) {
        if signed.is_empty() {
            return;
        }
        let envelopes: Vec<_> = signed
            .iter()
            .map(|(_, id, bytes)| (id.clone(), bytes.as_bytes()))
            .collect();
        let kept = self.store.keep_envelopes(&envelopes, self.ttl_ms).await;
        let kept = kept.unwrap_or_else(|error| {
            error!(%error, "envelopes cannot be stored: {error}");
            vec![false; envelopes.len()]
        });
        let now_ms = self.store.clock().now_ms();
        let look_at = Instant::now() + self.confirmed_after;
        for ((place, id, _), is_kept) in signed.into_iter().zip(kept) {
            if !is_kept {
                self.count("failed");
                self.again(place);
                continue;
            }
            pass.signed += 1;
            self.count("signed");
            let delay_ms = now_ms.saturating_sub_unsigned(place.1.ms).max(0);
            self.metrics.delay.observe(delay_ms as f64 / 1000.0);
            if let Some(followed) = self.followed.get_mut(&place.0) {
                followed.signed(place.1, id, look_at);
            }
        }
    }

    /// Puts an entry into quarantine, unless another dispatcher did; later if that is not possible yet.
    async fn quarantine(&mut self, place: Queued, why: &str, pass: &mut SignerPass) {
        let (partition, entry) = place;
        match self.store.quarantine_unsigned(place, why).await {
            Ok(true) => {
                error!(
                    %partition, %entry,
                    "evidence entry {entry} of {partition} cannot be signed and is in quarantine now: {why}"
                );
                self.count("quarantined");
                pass.quarantined += 1;
            }
            Ok(false) => (),
            Err(error) => {
                debug!(%error, "evidence cannot be put into quarantine yet: {error}");
                self.again(place);
            }
        }
    }

    fn again(&mut self, (partition, place): Queued) {
        if let Some(followed) = self.followed.get_mut(&partition) {
            followed.again(place);
        }
    }

    fn count(&self, outcome: &str) {
        self.metrics.entries.with_label_values(&[outcome]).inc();
    }
}

lease_worker!(Signer: "signer", IDLE, |signer, leases, _lost| signer.run_once(leases).await?.next());
