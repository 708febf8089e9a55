//! The background work of a dispatcher: each worker repeats one bounded pass, until told to stop.

use std::fmt;
use std::time::Duration;

use prometheus::{IntCounterVec, Opts};
use tokio::task::JoinSet;
use tracing::{debug, warn};

use crate::shutdown::Shutdown;
use crate::telemetry::Telemetry;

/// What a pass found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// There may be more; go on at once.
    Full,
    /// All done for now.
    Idle,
    /// All done until after about this pause.
    Rest(Duration),
}

/// The running workers of a process.
#[derive(Debug)]
pub struct Workers {
    tasks: JoinSet<()>,
    passes: Option<IntCounterVec>,
    shutdown: Shutdown,
}

impl Workers {
    /// No workers yet.
    pub fn new(telemetry: &Telemetry, shutdown: Shutdown) -> Self {
        let options = Opts::new(
            "budget_worker_passes_total",
            "Passes of each background worker by result.",
        );
        let passes = IntCounterVec::new(options, &["worker", "result"]).ok();
        let registered = passes.filter(|passes| {
            telemetry
                .registry()
                .register(Box::new(passes.clone()))
                .is_ok()
        });
        Self {
            tasks: JoinSet::new(),
            passes: registered,
            shutdown,
        }
    }

    /// Repeats `pass` until the process is to end: at once after a full pass, after about `pause` otherwise, and after up
    /// to ten pauses while passes fail. A pass is never interrupted. The pauses of several processes drift apart.
    pub fn repeat<F, E>(
        &mut self,
        name: &'static str,
        pause: Duration,
        mut pass: impl FnMut() -> F + Send + 'static,
    ) where
        F: Future<Output = Result<Pass, E>> + Send,
        E: fmt::Display + Send,
    {
        let (passes, shutdown) = (self.passes.clone(), self.shutdown.clone());
        let count = move |result: &str| {
            if let Some(passes) = &passes {
                passes.with_label_values(&[name, result]).inc();
            }
        };
        self.tasks.spawn(async move {
            let mut failures = 0u32;
            while !shutdown.has_begun() {
                let outcome = pass().await;
                let wait = match outcome {
                    Ok(found) => {
                        count("ok");
                        if failures > 0 {
                            warn!(worker = name, failures, "worker `{name}` is back after {failures} failed passes");
                        }
                        failures = 0;
                        match found {
                            Pass::Full => continue,
                            Pass::Idle => pause,
                            Pass::Rest(pause) => pause,
                        }
                    }
                    Err(error) => {
                        count("failed");
                        failures += 1;
                        // Once when it starts; the counter tells the rest.
                        match failures {
                            1 => warn!(worker = name, error = %error, "worker `{name}` failed and tries again: {error}"),
                            _ => debug!(worker = name, error = %error, failures, "worker `{name}` failed again"),
                        }
                        pause * failures.min(10)
                    }
                };
                let jittered = wait.mul_f64(rand::random_range(0.75..1.25));
                tokio::select! {
                    () = tokio::time::sleep(jittered) => {}
                    () = shutdown.begun() => {}
                }
            }
        });
    }

    /// Waits until the present pass of each worker is over, at most `grace`.
    pub async fn finished(mut self, grace: Duration) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            warn!("a background worker was cut off in the middle of a pass");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_worker_goes_on_while_there_is_more_and_after_failures() {
        let (telemetry, shutdown) = (Telemetry::new().expect("distinct names"), Shutdown::new());
        let mut workers = Workers::new(&telemetry, shutdown.clone());
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let end = shutdown.clone();
        workers.repeat("test", Duration::from_millis(1), move || {
            let run = count.fetch_add(1, Ordering::Relaxed);
            let end = end.clone();
            async move {
                match run {
                    0 | 1 => Ok(Pass::Full),
                    2 => Err("no luck"),
                    3 => Ok(Pass::Idle),
                    _ => {
                        end.begin();
                        Ok(Pass::Full)
                    }
                }
            }
        });
        workers.finished(Duration::from_secs(10)).await;
        assert_eq!(runs.load(Ordering::Relaxed), 5);
        let text = telemetry.render().expect("metrics");
        assert!(
            text.contains(r#"budget_worker_passes_total{result="ok",worker="test"} 4"#),
            "{text}"
        );
    }
}
