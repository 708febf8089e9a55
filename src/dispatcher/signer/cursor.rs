//! How far the stream of one partition was read.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::log_entry::EntryId;

/// The pause before entries that are still there are tried again. It doubles while nothing can be signed.
const RETRY_MIN: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Entries leave the stream when their envelopes are written. Those that are still there behind the cursor failed, wait for
/// another dispatcher, or came back with a failover: all are read again from the first one on, after a pause.
#[derive(Debug)]
pub(super) struct Cursor {
    /// Entries up to this one were read.
    pub after: EntryId,
    /// Whether the log says that entries of this stream wait for another dispatcher.
    pub is_reported: bool,
    retry_at: Option<Instant>,
    pause: Duration,
    /// Whether any entry was signed since the stream was last read from its start.
    made_progress: bool,
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            after: EntryId::ZERO,
            is_reported: false,
            retry_at: None,
            pause: RETRY_MIN,
            made_progress: false,
        }
    }
}

impl Cursor {
    /// Where to read from at a time.
    pub fn begin(&mut self, now: Instant) -> EntryId {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.pause = match self.made_progress {
                true => RETRY_MIN,
                false => (2 * self.pause).min(RETRY_MAX),
            };
            self.retry_at = None;
            self.made_progress = false;
            self.after = EntryId::ZERO;
        }
        self.after
    }

    /// Records that entries were read up to `last`, and whether any of them was removed.
    pub fn advance(&mut self, last: EntryId, made_progress: bool) {
        self.after = self.after.max(last);
        self.made_progress |= made_progress;
    }

    /// Records that the end was reached while entries were left in the stream.
    pub fn retry_later(&mut self, now: Instant) {
        self.retry_at.get_or_insert(now + self.pause);
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
    fn what_is_left_is_read_again_after_a_pause_that_doubles_without_progress() {
        let (mut cursor, mut now) = (Cursor::default(), Instant::now());
        for (progress, pause_s) in [
            (false, 2),
            (false, 4),
            (false, 8),
            (false, 16),
            (false, 32),
            (true, 60),
            (false, 2),
        ] {
            assert_eq!(cursor.begin(now), EntryId::ZERO);
            cursor.advance(place(7), progress);
            cursor.retry_later(now);
            now += pause_s * SECOND - SECOND / 2;
            assert_eq!(cursor.begin(now), place(7), "{pause_s}");
            // A later call does not put it off.
            cursor.retry_later(now);
            now += SECOND / 2;
        }
    }

    #[test]
    fn where_nothing_is_left_only_new_entries_are_read() {
        let (mut cursor, now) = (Cursor::default(), Instant::now());
        cursor.begin(now);
        cursor.advance(place(7), true);
        cursor.advance(place(5), false);
        assert_eq!(cursor.begin(now + 3_600 * SECOND), place(7));
    }
}
