//! What the signer knows of one partition.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::oldest::{Moment, Oldest};
use super::waiting::Waiting;
use crate::domain::ids::EvidenceId;
use crate::domain::log_entry::EntryId;

/// How long after it was signed an envelope must be found, so that a replica that took over meanwhile is seen to have it.
pub(super) const CONFIRMED_AFTER: Duration = Duration::from_secs(60);

/// How often what could not be signed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How often what another dispatcher must sign is tried: this one may have read since who issues.
const LEFT_AFTER: Duration = Duration::from_secs(60);

/// An entry that is older should have been signed and confirmed.
const OVERLOOKED: Duration = Duration::from_secs(300);

/// An entry whose envelope was kept.
#[derive(Debug)]
pub(super) struct SignedEntry {
    pub place: EntryId,
    /// Of the envelope.
    pub id: EvidenceId,
    look_at: Instant,
}

/// Why an entry waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Its envelope could not be stored, or was not found.
    Failed,
    /// Another dispatcher must sign it, or this one once it has read who issues.
    Left,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Followed {
    /// Up to here entries were read.
    pub after: EntryId,
    signed: VecDeque<SignedEntry>,
    failed: Waiting,
    left: Waiting,
    /// Of these two.
    unsigned: Oldest,
    /// The first entry of the stream.
    head: Oldest,
}

impl Default for Followed {
    fn default() -> Self {
        Self {
            after: EntryId::ZERO,
            signed: VecDeque::new(),
            failed: Waiting::new(AGAIN_AFTER),
            left: Waiting::new(LEFT_AFTER),
            unsigned: Oldest::default(),
            head: Oldest::default(),
        }
    }
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
        self.failed.add(place);
    }

    /// Notes an entry for another dispatcher; whether it is the first.
    pub fn leave(&mut self, place: EntryId) -> bool {
        let is_first = self.left.first().is_none();
        self.left.add(place);
        is_first
    }

    pub fn waiting(&mut self, wait: Wait) -> &mut Waiting {
        match wait {
            Wait::Failed => &mut self.failed,
            Wait::Left => &mut self.left,
        }
    }

    /// The age of the oldest entry that could not be signed.
    pub fn oldest_unsigned(&mut self, now: Moment) -> Option<Duration> {
        let (failed, left) = (self.failed.first(), self.left.first());
        let oldest = failed.into_iter().chain(left).min()?;
        Some(self.unsigned.age(oldest, now))
    }

    /// Reads from the first entry again if that one is too old to be on its way, and nobody here knows why. Its age, if it is
    /// too old.
    pub fn look_back(&mut self, head: EntryId, now: Moment) -> Option<Duration> {
        let age = Some(self.head.age(head, now)).filter(|age| *age > OVERLOOKED)?;
        let waits = self.left.contains(head) || self.failed.contains(head);
        if head <= self.after && !waits && !self.signed.iter().any(|one| one.place == head) {
            self.after = EntryId::ZERO;
        }
        Some(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is older than 100 ms by now should have been signed.
    const NOW_MS: i64 = 300_100;

    fn place(ms: u64) -> EntryId {
        EntryId { ms, sequence: 0 }
    }

    /// Read up to a place.
    fn followed(after: EntryId) -> Followed {
        Followed {
            after,
            ..Followed::default()
        }
    }

    #[test]
    fn a_stream_is_read_from_its_first_entry_again_if_that_is_old_and_nobody_knows_why() {
        for (head, after, again) in [
            (99, 120, true),
            (99, 99, true),
            // It may still be on its way.
            (100, 120, false),
            // It is read next anyhow.
            (99, 98, false),
        ] {
            let mut followed = followed(place(after));
            followed.look_back(place(head), (Instant::now(), NOW_MS));
            let expected = if again { EntryId::ZERO } else { place(after) };
            assert_eq!(followed.after, expected, "{head} {after}");
        }
    }

    #[test]
    fn after_the_clock_was_set_back_an_entry_is_old_when_it_was_seen_long_ago() {
        let (mut followed, begun) = (followed(place(9_000_000)), Instant::now());
        let mut look_back = |after_s: u64| {
            let now = begun + Duration::from_secs(after_s);
            let age = followed.look_back(place(8_000_000), (now, 0));
            (age.map(|age| age.as_secs()), followed.after)
        };
        assert_eq!(look_back(0), (None, place(9_000_000)));
        assert_eq!(look_back(300), (None, place(9_000_000)));
        assert_eq!(look_back(301), (Some(301), EntryId::ZERO));
    }

    #[test]
    fn what_waits_is_not_read_again() {
        let id = EvidenceId::parse(&"a".repeat(64)).expect("an id");
        let now = Instant::now();
        let notes: [fn(&mut Followed, EntryId, SignedEntry); 3] = [
            |followed, head, _| followed.again(head),
            |followed, head, _| {
                followed.leave(head);
            },
            |followed, head, one| followed.signed(head, one.id, one.look_at),
        ];
        for note in notes {
            let mut followed = followed(place(120));
            let signed = SignedEntry {
                place: place(50),
                id: id.clone(),
                look_at: now,
            };
            note(&mut followed, place(50), signed);
            followed.look_back(place(50), (now, NOW_MS));
            assert_eq!(followed.after, place(120));
            // Another one that is old.
            followed.look_back(place(51), (now, NOW_MS));
            assert_eq!(followed.after, EntryId::ZERO);
        }
    }
}
