//! Repeats a warning that lasts with longer and longer pauses.

use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use crate::store::StoreError;
use crate::telemetry::error_chain;

/// The pause after the first warning. Each further one is twice as long, up to [`LONGEST`].
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// Limits how often a lasting problem is logged.
#[derive(Default)]
pub(super) struct LogThrottle {
    /// The last cause, when to repeat it, and the pause before that.
    last: Option<(String, Instant, Duration)>,
}

impl LogThrottle {
    /// Warns that Redis cannot be reached: at once for a new cause, otherwise after the pause.
    pub(super) fn redis_unavailable(&mut self, error: &StoreError) {
        let cause = error_chain(error);
        if let Some(pause) = self.pause_after(&cause, Instant::now()) {
            warn!(error = %cause, retry_s = pause.as_secs(), "waiting for Redis: {cause}");
        }
    }

    /// The same for data of another deployment, which an operator must repair.
    pub(super) fn wrong_deployment(&mut self, error: &StoreError) {
        let cause = error_chain(error);
        if self.pause_after(&cause, Instant::now()).is_some() {
            error!(error = %cause, "{cause}");
        }
    }

    /// The same for a registry of evidence keys that contradicts this process.
    pub(super) fn evidence_keys(&mut self, error: &StoreError) {
        let cause = error_chain(error);
        if self.pause_after(&cause, Instant::now()).is_some() {
            warn!(error = %cause, "the keys of evidence cannot be read again, and stay as they were: {cause}");
        }
    }

    /// The pause after a warning that is due now; `None` if none is due.
    fn pause_after(&mut self, cause: &str, now: Instant) -> Option<Duration> {
        let pause = match &self.last {
            Some((last, next, _)) if last == cause && now < *next => return None,
            Some((last, _, pause)) if last == cause => (*pause * 2).min(LONGEST),
            _ => FIRST,
        };
        self.last = Some((cause.to_owned(), now + pause, pause));
        Some(pause)
    }

    /// Logs `message` if a warning was logged before it.
    pub(super) fn resolved(&mut self, message: &str) {
        if self.last.take().is_some() {
            info!("{message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_cause_is_logged_with_growing_pauses_and_a_new_one_at_once() {
        let start = Instant::now();
        let mut throttle = LogThrottle::default();
        let logged = (0..1_000)
            .filter(|half_s| {
                let now = start + Duration::from_millis(half_s * 500);
                throttle.pause_after("refused", now).is_some()
            })
            .map(|half_s| half_s / 2);
        let logged: Vec<u64> = logged.collect();
        assert_eq!(logged[..7], [0, 2, 6, 14, 30, 62, 122]);
        let now = start + Duration::from_secs(500);
        assert_eq!(throttle.pause_after("wrong password", now), Some(FIRST));
        assert_eq!(throttle.pause_after("wrong password", now), None);
    }
}
