//! How far the stream of one partition was read.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::log_entry::EntryId;

/// The pause before entries that are still there are tried again. It doubles while none of them can be signed.
const RETRY_MIN: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Entries leave the stream when their envelopes are written. Those that are still there before the end failed, wait for another
/// dispatcher, or came back with a failover. After a pause they are read again from the first one on, a batch per pass, beside
/// what is new.
#[derive(Debug)]
pub(super) struct Cursor {
    /// Entries up to this one were read.
    pub end: EntryId,
    /// Entries up to this one were read again, while that is in progress.
    pub retried: Option<EntryId>,
    /// Whether the log says that entries of this stream wait for another dispatcher.
    pub is_reported: bool,
    retry_at: Option<Instant>,
    pause: Duration,
    /// Whether an entry that was read again was signed.
    made_progress: bool,
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            end: EntryId::ZERO,
            retried: None,
            is_reported: false,
            retry_at: None,
            pause: RETRY_MIN,
            made_progress: false,
        }
    }
}

impl Cursor {
    /// Where to read again from, if it is time for that.
    pub fn retry(&mut self, now: Instant) -> Option<EntryId> {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.made_progress = false;
            self.retried = Some(EntryId::ZERO);
        }
        self.retried
    }

    /// Records that entries were left in the stream.
    pub fn retry_later(&mut self, now: Instant) {
        if self.retried.is_none() {
            self.retry_at.get_or_insert(now + self.pause);
        }
    }

    /// Records that entries were read again up to `last`, or all of them, and whether any was removed. After a round in which some
    /// were, the next one begins at once, since what prevented them may be over.
    pub fn retried_to(&mut self, last: Option<EntryId>, made_progress: bool) {
        self.made_progress |= made_progress;
        self.retried = last.filter(|last| *last < self.end);
        if self.retried.is_some() {
            return;
        }
        if std::mem::take(&mut self.made_progress) {
            self.pause = RETRY_MIN;
            self.retried = Some(EntryId::ZERO);
        } else {
            self.pause = (2 * self.pause).min(RETRY_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn place(ms: u64) -> EntryId {
        EntryId { ms, sequence: 0 }
    }

    #[test]
    fn remaining_entries_are_read_again_after_a_doubling_pause() {
        let (mut cursor, mut now) = (Cursor::default(), Instant::now());
        cursor.end = place(7);
        for (progress, pause_s) in [
            (false, 2),
            (false, 4),
            (false, 8),
            (false, 16),
            (false, 32),
            (true, 60),
            (false, 4),
        ] {
            cursor.retry_later(now);
            now += pause_s * SECOND - SECOND / 2;
            assert_eq!(cursor.retry(now), None, "{pause_s}");
            // A later call does not put it off.
            cursor.retry_later(now);
            now += SECOND / 2;
            assert_eq!(cursor.retry(now), Some(EntryId::ZERO), "{pause_s}");
            cursor.retried_to(Some(place(5)), progress);
            assert_eq!(cursor.retry(now), Some(place(5)), "one batch a pass");
            cursor.retried_to(Some(place(7)), false);
            if progress {
                assert_eq!(cursor.retry(now), Some(EntryId::ZERO), "once more at once");
                cursor.retried_to(None, false);
            }
            assert_eq!(cursor.retry(now), None, "{pause_s}");
        }
    }

    #[test]
    fn without_remaining_entries_nothing_is_read_again() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.retry(Instant::now() + 3_600 * SECOND), None);
    }
}
