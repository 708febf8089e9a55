//! Watches Redis, the deployment and the registry of evidence keys while a process serves, and logs what an operator must know.

use std::time::{Duration, Instant};

use tracing::{debug, error, info, warn};

use crate::evidence::{Issuing, REFRESH_EVERY};
use crate::store::{FullestNode, MemoryStep, REFUSE_PERCENT, Store, StoreError, Unavailable};
use crate::telemetry::error_chain;

/// How often the deployment's record is compared with the one that the process started with.
const DEPLOYMENT_PERIOD: Duration = Duration::from_secs(2);

/// Returns only when the deployment or its Redis cannot be used. Warns about a Redis that is absent, configured dangerously, or
/// short of memory, and about a deployment that lost its record.
pub(super) async fn watch_deployment(store: &Store, issuing: Option<&Issuing>) -> StoreError {
    let mut throttle = LogThrottle::default();
    let findings = loop {
        let checked = async {
            let findings = store.inspect().await?;
            // A worker may have read the record already, and a new connection may have found it missing since.
            store.compare_deployment().await?;
            store.secret().await?;
            if let Some(issuing) = issuing {
                issuing.registry(store).await?;
            }
            Ok(findings)
        };
        match checked.await {
            Ok(findings) => break findings,
            Err(error @ StoreError::Unavailable(Unavailable::OtherData(_))) => {
                throttle.log_lost_record(&error);
            }
            Err(error @ (StoreError::Unavailable(_) | StoreError::Full)) => {
                if let Some((cause, pause)) = throttle.due(&error) {
                    warn!(error = %cause, retry_s = pause.as_secs(), "waiting for Redis: {cause}");
                }
            }
            Err(refused) => return refused,
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    throttle.resolved("Redis responds, with the deployment's record");
    for finding in findings {
        warn!(redis.address = %finding.node, "Redis at {}: {}", finding.node, finding.message);
    }
    tokio::select! {
        never = watch_memory(store) => never,
        never = watch_record(store) => never,
        never = watch_issuers(store, issuing) => never,
    }
}

/// Refreshes the registry of evidence keys, which other processes may have changed.
async fn watch_issuers(store: &Store, issuing: Option<&Issuing>) -> ! {
    let (mut throttle, mut was_stale) = (LogThrottle::default(), false);
    loop {
        tokio::time::sleep(REFRESH_EVERY).await;
        let Some(issuing) = issuing else { continue };
        match issuing.refresh(store).await {
            Ok(()) => throttle.resolved("the keys of evidence are read again"),
            Err(error @ StoreError::Deployment(_)) => {
                if let Some((cause, _)) = throttle.due(&error) {
                    warn!(error = %cause, "the keys of evidence cannot be read again, and stay as they were: {cause}");
                }
            }
            // Other messages report the outage.
            Err(error) => {
                debug!(error = %error, "the keys of evidence cannot be read again: {error}");
            }
        }
        match (was_stale, issuing.is_stale()) {
            (false, true) => warn!(
                "the keys of evidence could not be read for minutes, and another one may have taken over: nothing is attested until \
                 they can be read"
            ),
            (true, false) => info!("the keys of evidence are read again: decisions are attested"),
            _ => {}
        }
        was_stale = issuing.is_stale();
    }
}

/// Logs when the deployment's record is missing or different, and when it is back.
async fn watch_record(store: &Store) -> ! {
    let mut throttle = LogThrottle::default();
    loop {
        tokio::time::sleep(DEPLOYMENT_PERIOD).await;
        match store.compare_deployment().await {
            Ok(()) => throttle.resolved("the deployment's record is back"),
            Err(error) => throttle.log_lost_record(&error),
        }
    }
}

/// The pause between two polls, and the one while memory is nearly short. It may fill beyond a step meanwhile; Redis itself enforces
/// `maxmemory`.
const MEMORY_PERIOD: Duration = Duration::from_secs(1);
const SHORT_MEMORY_PERIOD: Duration = Duration::from_millis(200);
const NEARLY_SHORT_PERCENT: u32 = 70;

/// How long a poll may take.
const POLL_TIMEOUT: Duration = Duration::from_millis(500);

/// Polls how much of its memory Redis uses, which requests act on. Logs each change of the step.
async fn watch_memory(store: &Store) -> ! {
    let mut logged = MemoryStep::Enough;
    loop {
        let mut period = MEMORY_PERIOD;
        if let Some(fullest) = store.look_at_memory(POLL_TIMEOUT).await {
            if fullest.share.percent() >= NEARLY_SHORT_PERCENT {
                period = SHORT_MEMORY_PERIOD;
            }
            let step = step_after(logged, &fullest);
            if step != logged {
                log_memory(step, &fullest);
            }
            logged = step;
        }
        tokio::time::sleep(period).await;
    }
}

/// The step to log. A margin keeps it from going back and forth around a limit.
fn step_after(logged: MemoryStep, fullest: &FullestNode) -> MemoryStep {
    let falling = logged.min(MemoryStep::at(fullest.share.with_margin()));
    MemoryStep::at(fullest.share).max(falling)
}

fn log_memory(step: MemoryStep, FullestNode { node, share }: &FullestNode) {
    let percent = share.percent();
    let effect = match step {
        MemoryStep::Enough => {
            return info!(redis.address = %node, percent, "Redis at {node} uses {percent} % of maxmemory: enough is free");
        }
        MemoryStep::Warn => format!(
            "nothing new is stored for tenants that take more than their share, and from {REFUSE_PERCENT} % on for nobody"
        ),
        MemoryStep::CountDenials => "denials are only counted".to_owned(),
        MemoryStep::Refuse => "creates, events and decisions are refused".to_owned(),
    };
    warn!(
        redis.address = %node, percent,
        "Redis at {node} uses {percent} % of maxmemory: {effect}. Raise maxmemory, or shorten the retention"
    );
}

/// The pause after the first warning. Each further one is twice as long, up to [`LONGEST`].
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// Limits how often a lasting problem is logged.
#[derive(Default)]
struct LogThrottle {
    /// The last cause, when to repeat it, and the pause before that.
    last: Option<(String, Instant, Duration)>,
}

impl LogThrottle {
    /// What to log of an error, and the pause until it is logged again: at once for a new cause, otherwise after the pause.
    fn due(&mut self, error: &StoreError) -> Option<(String, Duration)> {
        let cause = error_chain(error);
        let pause = self.pause_after(&cause, Instant::now())?;
        Some((cause, pause))
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

    /// Logs what an operator must repair.
    fn log_lost_record(&mut self, error: &StoreError) {
        if let Some((cause, _)) = self.due(error) {
            error!(error = %cause, "{cause}");
        }
    }

    /// Logs `message` if a warning was logged before it.
    fn resolved(&mut self, message: &str) {
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
