//! What the signer knows of one partition.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::ids::EvidenceId;
use crate::domain::log_entry::EntryId;

/// How long after it was signed an envelope must be found, so that a replica that took over meanwhile is seen to have it.
pub(super) const CONFIRMED_AFTER: Duration = Duration::from_secs(60);

/// How often what could not be signed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// An entry whose envelope was kept.
#[derive(Debug)]
pub(super) struct SignedEntry {
    pub place: EntryId,
    /// Of the envelope.
    pub id: EvidenceId,
    look_at: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Up to here entries were read.
    pub after: EntryId,
    signed: VecDeque<SignedEntry>,
    again: VecDeque<EntryId>,
    again_at: Option<Instant>,
    /// The first one that another dispatcher must sign.
    left: Option<EntryId>,
}

impl Followed {
    pub fn signed(&mut self, place: EntryId, id: EvidenceId, look_at: Instant) {
        self.signed.push_back(SignedEntry { place, id, look_at });
    }

    /// Up to so many whose envelopes are to be looked for.
    pub fn take_due(&mut self, now: Instant, most: usize) -> Vec<SignedEntry> {
        let due = self
            .signed
            .iter()
            .take(most)
            .take_while(|one| one.look_at <= now);
        let due = due.count();
        self.signed.drain(..due).collect()
    }

    pub fn again(&mut self, place: EntryId) {
        self.again.push_back(place);
        self.again_at
            .get_or_insert_with(|| Instant::now() + AGAIN_AFTER);
    }

    /// Up to so many that are to be signed again now.
    pub fn take_again(&mut self, most: usize) -> Vec<EntryId> {
        if most == 0 || self.again_at.is_none_or(|at| at > Instant::now()) {
            return Vec::new();
        }
        let taken = self.again.drain(..most.min(self.again.len())).collect();
        self.again_at = (!self.again.is_empty()).then(Instant::now);
        taken
    }

    /// Notes an entry for another dispatcher; whether it is the first.
    pub fn leave(&mut self, place: EntryId) -> bool {
        let is_first = self.left.is_none();
        self.left = Some(self.left.map_or(place, |left| left.min(place)));
        is_first
    }

    /// The oldest entry that could not be signed.
    pub fn oldest_unsigned(&self) -> Option<EntryId> {
        self.left
            .into_iter()
            .chain(self.again.iter().copied())
            .min()
    }
}
