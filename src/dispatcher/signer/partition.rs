//! What the signer knows of one partition.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::ids::EvidenceId;
use crate::domain::log_entry::EntryId;

/// How long after it was signed an envelope must be found, so that a replica that took over meanwhile is seen to have it.
pub(super) const CONFIRMED_AFTER: Duration = Duration::from_secs(60);

/// How often what could not be signed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How often what another dispatcher must sign is tried: this one may have read since who issues.
const LEFT_AFTER: Duration = Duration::from_secs(60);

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
    again: BTreeSet<EntryId>,
    again_at: Option<Instant>,
    /// What another dispatcher must sign, or this one once it has read who issues.
    left: BTreeSet<EntryId>,
    left_at: Option<Instant>,
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

    /// Puts one back that could not be looked for.
    pub fn look_later(&mut self, one: SignedEntry) {
        let look_at = Instant::now() + AGAIN_AFTER;
        self.signed.push_back(SignedEntry { look_at, ..one });
    }

    pub fn again(&mut self, place: EntryId) {
        self.again.insert(place);
        self.again_at
            .get_or_insert_with(|| Instant::now() + AGAIN_AFTER);
    }

    /// Up to so many that are to be signed again now.
    pub fn take_again(&mut self, most: usize) -> Vec<EntryId> {
        let now = Instant::now();
        let mut taken = Vec::new();
        let sets = [
            (&mut self.again, &mut self.again_at, AGAIN_AFTER),
            (&mut self.left, &mut self.left_at, LEFT_AFTER),
        ];
        for (set, at, after) in sets {
            if at.is_none_or(|at| at > now) {
                continue;
            }
            while taken.len() < most
                && let Some(place) = set.pop_first()
            {
                taken.push(place);
            }
            *at = (!set.is_empty()).then(|| now + after);
        }
        taken
    }

    /// Notes an entry for another dispatcher; whether it is the first.
    pub fn leave(&mut self, place: EntryId) -> bool {
        let is_first = self.left.is_empty();
        self.left.insert(place);
        self.left_at
            .get_or_insert_with(|| Instant::now() + LEFT_AFTER);
        is_first
    }

    /// The oldest entry that could not be signed.
    pub fn oldest_unsigned(&self) -> Option<EntryId> {
        let again = self.again.first();
        self.left.first().into_iter().chain(again).min().copied()
    }

    /// Reads from the first entry again if that one is too old to be on its way, and nobody here knows why.
    pub fn look_back(&mut self, head: EntryId, before_ms: u64) {
        if head.ms >= before_ms || head > self.after {
            return;
        }
        let waits = self.left.contains(&head) || self.again.contains(&head);
        if !waits && !self.signed.iter().any(|one| one.place == head) {
            self.after = EntryId::ZERO;
        }
    }
}
