//! How often the log says why a process waits.

use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use crate::store::StoreError;
use crate::telemetry::error_chain;

/// The pause after the first warning. Each further one is twice as long, up to [`LONGEST`].
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// What was stated so far.
#[derive(Default)]
pub(super) struct Complaints {
    /// The last cause, and when to repeat it after which pause.
    last: Option<(String, Instant, Duration)>,
}

impl Complaints {
    /// Warns with the cause: at once if it is another than before, else with longer and longer pauses.
    pub(super) fn waiting_for_redis(&mut self, error: &StoreError) {
        let cause = error_chain(error);
        if let Some(pause) = self.pause_after(&cause, Instant::now()) {
            warn!(error = %cause, retry_s = pause.as_secs(), "waiting for Redis: {cause}");
        }
    }

    /// The same for a record that somebody must restore.
    pub(super) fn other_data(&mut self, error: &StoreError) {
        let cause = error_chain(error);
        if self.pause_after(&cause, Instant::now()).is_some() {
            error!(error = %cause, "{cause}");
        }
    }

    /// The same for a registry of keys that contradicts this process.
    pub(super) fn keys_of_evidence(&mut self, error: &StoreError) {
        let cause = error_chain(error);
        if self.pause_after(&cause, Instant::now()).is_some() {
            warn!(error = %cause, "the keys of evidence cannot be read again, and stay as they were: {cause}");
        }
    }

    /// The pause after a warning that is due now.
    fn pause_after(&mut self, cause: &str, now: Instant) -> Option<Duration> {
        let pause = match &self.last {
            Some((last, next, _)) if last == cause && now < *next => return None,
            Some((last, _, pause)) if last == cause => (*pause * 2).min(LONGEST),
            _ => FIRST,
        };
        self.last = Some((cause.to_owned(), now + pause, pause));
        Some(pause)
    }

    /// Says that it is over, if the log stated otherwise.
    pub(super) fn over(&mut self, message: &str) {
        if self.last.take().is_some() {
            info!("{message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_repeated_with_longer_pauses_and_another_is_logged_at_once() {
        let begun = Instant::now();
        let mut complaints = Complaints::default();
        let stated = (0..1_000)
            .filter(|half_s| {
                let now = begun + Duration::from_millis(half_s * 500);
                complaints.pause_after("refused", now).is_some()
            })
            .map(|half_s| half_s / 2);
        let stated: Vec<u64> = stated.collect();
        assert_eq!(stated[..7], [0, 2, 6, 14, 30, 62, 122]);
        let now = begun + Duration::from_secs(500);
        assert_eq!(complaints.pause_after("wrong password", now), Some(FIRST));
        assert_eq!(complaints.pause_after("wrong password", now), None);
    }
}
