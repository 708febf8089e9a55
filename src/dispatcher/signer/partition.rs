//! What the signer knows of one partition.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::oldest::{Moment, OLD, Oldest};
use super::waiting::Waiting;
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
    /// Entries of the stream when the pass began.
    pub queued: usize,
    /// Whether some of these are known to nobody here: after a failover a stream may have entries at places that were read before.
    overlooked: bool,
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
            queued: 0,
            overlooked: false,
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

    /// Notes that nothing lies behind the entries that were just read, so many.
    pub fn reached_end(&mut self, read: usize) {
        let known = self.signed.len() + self.failed.len() + self.left.len();
        self.overlooked = self.queued > known + read;
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

    /// Reads from the first entry again if one was overlooked. The age of the first one, if it is too old to be on its way.
    pub fn look_back(&mut self, head: EntryId, now: Moment) -> Option<Duration> {
        if std::mem::take(&mut self.overlooked) {
            self.after = EntryId::ZERO;
        }
        Some(self.head.age(head, now)).filter(|age| *age > OLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ms: u64) -> EntryId {
        EntryId { ms, sequence: 0 }
    }

    /// Read up to a place, with an entry of each kind before it.
    fn followed() -> Followed {
        let mut followed = Followed {
            after: place(120),
            ..Followed::default()
        };
        let id = EvidenceId::parse(&"a".repeat(64)).expect("an id");
        followed.again(place(50));
        followed.leave(place(60));
        followed.signed(place(70), id, Instant::now());
        followed
    }

    #[test]
    fn a_stream_is_read_from_its_first_entry_again_if_it_has_one_that_nobody_knows() {
        for (queued, read, again) in [
            (3, 0, false),
            (5, 2, false),
            // Some were queued since they were counted.
            (3, 2, false),
            (4, 0, true),
            (6, 2, true),
        ] {
            let mut followed = followed();
            followed.queued = queued;
            followed.reached_end(read);
            for _ in 0..2 {
                followed.look_back(place(50), (Instant::now(), None));
                let expected = if again { EntryId::ZERO } else { place(120) };
                assert_eq!(followed.after, expected, "{queued} {read}");
            }
            // Once it was read again.
            followed.after = place(120);
            followed.look_back(place(50), (Instant::now(), None));
            assert_eq!(followed.after, place(120), "{queued} {read}");
        }
    }

    #[test]
    fn after_the_clock_was_set_back_an_entry_is_old_when_it_was_seen_long_ago() {
        let (mut followed, begun) = (followed(), Instant::now());
        let mut look_back = |after_s: u64| {
            let now = begun + Duration::from_secs(after_s);
            let age = followed.look_back(place(8_000_000), (now, Some(0)));
            age.map(|age| age.as_secs())
        };
        assert_eq!([0, 300, 301].map(&mut look_back), [None, None, Some(301)]);
    }
}
