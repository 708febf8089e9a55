//! Tries again what could not be signed, or was not found; and leaves to others what this dispatcher cannot sign.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::warn;

use super::envelopes::Signers;
use super::partition::Wait;
use super::{BATCH, PARTITIONS, Signer, SignerPass};
use crate::domain::ids::{EvidenceId, Partition};
use crate::domain::log_entry::EntryId;
use crate::store::StoreError;
use crate::store::dispatcher::unsigned::Queued;

impl Signer {
    /// Signs once more what failed, and what may be known by now.
    pub(super) async fn sign_again(&mut self, pass: &mut SignerPass) -> Result<(), StoreError> {
        let mut signed = Ok(());
        for wait in [Wait::Failed, Wait::Left] {
            let now = Instant::now();
            let mut due = Vec::new();
            for (partition, followed) in &mut self.followed {
                let first = followed.waiting(wait).due(now);
                due.extend(first.map(|first| (*partition, first)));
            }
            if due.is_empty() {
                continue;
            }
            let signers = self.signers().await?;
            let mut large = Vec::new();
            for some in due.chunks(PARTITIONS) {
                let tried = self
                    .try_again(&signers, wait, some, Some(&mut large), pass)
                    .await;
                signed = signed.and(tried);
            }
            for place in large {
                let tried = self.try_again(&signers, wait, &[place], None, pass).await;
                signed = signed.and(tried);
            }
        }
        signed
    }

    /// Reads the batch that begins at each place, and signs what waits of it. Where its first entry is too large to be read
    /// beside others, the place is `large`.
    async fn try_again(
        &mut self,
        signers: &Arc<Signers>,
        wait: Wait,
        places: &[Queued],
        mut large: Option<&mut Vec<Queued>>,
        pass: &mut SignerPass,
    ) -> Result<(), StoreError> {
        let before: Vec<Queued> = places
            .iter()
            .map(|(p, first)| (*p, first.before()))
            .collect();
        let read = match self.read(&before, BATCH / places.len()).await {
            Ok(read) => read,
            Err(error) => {
                places
                    .iter()
                    .for_each(|(p, _)| self.tried(wait, *p, false, pass));
                return Err(error);
            }
        };
        let (mut entries, mut batches) = (Vec::new(), Vec::new());
        for (place, read) in places.iter().zip(read) {
            let Some(read) = read else {
                self.tried(wait, place.0, false, pass);
                continue;
            };
            if let (true, Some(_), Some(large)) = (read.entries.is_empty(), read.next, &mut large) {
                large.push(*place);
                continue;
            }
            // What waits up to there and was not read is gone, so it is done.
            let last = read
                .next
                .and(read.entries.last())
                .map(|entry| entry.place.1);
            let Some(followed) = self.followed.get_mut(&place.0) else {
                continue;
            };
            let batch = followed.waiting(wait).take(last);
            let waits = read
                .entries
                .into_iter()
                .filter(|entry| batch.contains(&entry.place.1));
            entries.extend(waits);
            batches.push((place.0, batch));
        }
        self.sign(signers, entries, pass).await;
        for (partition, batch) in batches {
            self.finish(wait, partition, &batch, pass);
        }
        Ok(())
    }

    /// After a batch was tried: finds out whether it helped.
    fn finish(
        &mut self,
        wait: Wait,
        partition: Partition,
        batch: &BTreeSet<EntryId>,
        pass: &mut SignerPass,
    ) {
        let Some(followed) = self.followed.get_mut(&partition) else {
            return;
        };
        let waiting = followed.waiting(wait);
        let helped = batch.iter().any(|place| !waiting.contains(*place));
        self.tried(wait, partition, helped, pass);
    }

    fn tried(&mut self, wait: Wait, partition: Partition, helped: bool, pass: &mut SignerPass) {
        if let Some(followed) = self.followed.get_mut(&partition) {
            let waiting = followed.waiting(wait);
            waiting.tried(helped);
            pass.more |= waiting.due(Instant::now()).is_some();
        }
    }

    /// Leaves entries to another dispatcher, unless it is known to have signed them: then they wait until that is confirmed. One
    /// warning per partition says why; the gauge tells the age.
    pub(super) async fn leave(&mut self, entries: Vec<(Queued, Option<EvidenceId>, String)>) {
        let ids: Vec<EvidenceId> = entries.iter().filter_map(|(_, id, _)| id.clone()).collect();
        let mut found = match ids.is_empty() {
            true => Vec::new(),
            false => self.store.envelopes_found(&ids).await.unwrap_or_default(),
        }
        .into_iter();
        let look_at = Instant::now() + self.confirmed_after;
        for ((partition, entry), id, why) in entries {
            let signed = id.filter(|_| found.next() == Some(Some(true)));
            if signed.is_none() {
                self.count("unknown");
            }
            let Some(followed) = self.followed.get_mut(&partition) else {
                continue;
            };
            match signed {
                Some(id) => followed.signed(entry, id, look_at),
                None if followed.leave(entry) => {
                    warn!(%partition, %entry, "evidence entry {entry} of {partition} waits for another dispatcher: {why}");
                }
                None => (),
            }
        }
    }
}
