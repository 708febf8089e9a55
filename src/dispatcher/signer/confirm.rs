//! Removes what is done from the streams, and tells what is not.

use std::time::Duration;

use tokio::time::Instant;

use super::oldest::{self, Moment};
use super::partition::SignedEntry;
use super::{Signer, SignerPass};
use crate::domain::ids::Partition;
use crate::store::StoreError;
use crate::store::dispatcher::unsigned::Queued;

/// Envelopes that one pass looks for.
const LOOKS: usize = 5_000;

impl Signer {
    /// Removes entries whose envelopes are found some time after they were signed. What is out of reach is looked for later.
    pub(super) async fn confirm(&mut self, pass: &mut SignerPass) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (partition, followed) in &mut self.followed {
            let left = LOOKS.saturating_sub(due.len());
            due.extend(
                followed
                    .take_due(now, left)
                    .into_iter()
                    .map(|one| (*partition, one)),
            );
        }
        if due.is_empty() {
            return;
        }
        let ids: Vec<_> = due.iter().map(|(_, one)| one.id.clone()).collect();
        let found = self.store.envelopes_found(&ids).await;
        let found = found.unwrap_or_else(|_| vec![None; ids.len()]);
        let (mut confirmed, mut later) = (Vec::new(), Vec::new());
        for ((partition, one), found) in due.into_iter().zip(found) {
            match found {
                Some(true) => confirmed.push((partition, one)),
                Some(false) => {
                    self.count("lost");
                    self.again((partition, one.place));
                }
                None => later.push((partition, one)),
            }
        }
        self.look_later(later);
        let places: Vec<Queued> = confirmed.iter().map(|(p, one)| (*p, one.place)).collect();
        let dropped = self.store.drop_unsigned(&places).await;
        let dropped = dropped.unwrap_or_else(|_| vec![false; places.len()]);
        let (gone, left): (Vec<_>, Vec<_>) = confirmed
            .into_iter()
            .zip(dropped)
            .partition(|(_, dropped)| *dropped);
        pass.confirmed += gone.len();
        self.look_later(left.into_iter().map(|(one, _)| one).collect());
    }

    fn look_later(&mut self, entries: Vec<(Partition, SignedEntry)>) {
        for (partition, one) in entries {
            if let Some(followed) = self.followed.get_mut(&partition) {
                followed.look_later(one);
            }
        }
    }

    /// The age of what could not be signed; every few seconds what is in quarantine, and whether something was overlooked.
    pub(super) async fn gauge(&mut self, leased: &[Partition]) -> Result<(), StoreError> {
        let now = oldest::now(&self.store, &self.clock).await?;
        let due = self
            .counted_at
            .is_none_or(|at| at.elapsed() >= Duration::from_secs(10));
        if due {
            self.counted_at = Some(now.0);
            let quarantined = self.store.quarantined(leased).await?;
            self.metrics.quarantined.set(quarantined as f64);
            self.old = self.look_back(leased, now).await?;
        }
        let followed = self.followed.values_mut();
        let unsigned = followed.filter_map(|followed| followed.oldest_unsigned(now));
        self.metrics.show_oldest(unsigned.chain(self.old));
        Ok(())
    }

    /// Begins anew in each stream of which something was overlooked; the age of the oldest entry that is too old to be on its way.
    async fn look_back(
        &mut self,
        leased: &[Partition],
        now: Moment,
    ) -> Result<Option<Duration>, StoreError> {
        let heads = self.store.first_unsigned(leased).await?;
        let mut oldest = None;
        for (partition, head) in leased.iter().zip(heads) {
            if let (Some(head), Some(followed)) = (head, self.followed.get_mut(partition)) {
                oldest = oldest.max(followed.look_back(head, now));
            }
        }
        Ok(oldest)
    }
}
