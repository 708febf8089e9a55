//! The background tasks of a dispatcher: each worker repeats one bounded pass until the process ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::leases::Leases;
use crate::metrics::metrics;
use crate::shutdown::Shutdown;
use crate::store::{Lease, StoreError};
use crate::telemetry::Telemetry;

/// When a worker starts its next pass, after one that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// At once, because more may be due.
    Now,
    /// After the worker's period.
    Idle,
    /// After about this pause.
    After(Duration),
}

impl Next {
    /// At once where `more` is due, else after the worker's period.
    pub(super) fn more(more: bool) -> Self {
        if more { Self::Now } else { Self::Idle }
    }
}

/// Background work on the partitions that a dispatcher leases.
pub(super) trait LeaseWorker: Send + 'static {
    /// The worker's label in metrics and log lines.
    const NAME: &'static str;
    /// The pause after a pass that leaves nothing due; several of them after repeated failures.
    const PERIOD: Duration;

    /// Does one bounded pass and calls `lost` with each lease that another dispatcher holds by now.
    fn pass(
        &mut self,
        leases: &[Lease],
        lost: impl FnMut(Lease) + Send,
    ) -> impl Future<Output = Result<Next, StoreError>> + Send;
}

/// Implements [`LeaseWorker`] for a type whose `run_once` says whether `more` is due: `lease_worker!(Sealer: "sealer", PERIOD)`. For
/// other types, a third argument makes the pass: `|worker, leases, lost| worker.run_once(leases, lost).await?.next()`.
macro_rules! lease_worker {
    ($worker:ty: $name:literal, $period:expr) => {
        $crate::dispatcher::workers::lease_worker!(
            $worker: $name, $period,
            |worker, leases, lost| $crate::dispatcher::workers::Next::more(worker.run_once(leases, lost).await?.more)
        );
    };
    ($worker:ty: $name:literal, $period:expr, |$self:ident, $leases:pat_param, $lost:pat_param| $next:expr) => {
        impl $crate::dispatcher::workers::LeaseWorker for $worker {
            const NAME: &'static str = $name;
            const PERIOD: std::time::Duration = $period;

            async fn pass(
                &mut self,
                $leases: &[$crate::store::Lease],
                $lost: impl FnMut($crate::store::Lease) + Send,
            ) -> Result<$crate::dispatcher::workers::Next, $crate::store::StoreError> {
                let $self = self;
                Ok($next)
            }
        }
    };
}
pub(super) use lease_worker;

metrics! {
    /// Metrics of all workers.
    struct WorkerMetrics {
        /// Passes of each background worker by result.
        passes: IntCounterVec["worker", "result"] = "budget_worker_passes_total",
    }
}

/// The running workers of a process.
#[derive(Debug)]
pub struct Workers {
    tasks: JoinSet<()>,
    metrics: WorkerMetrics,
    shutdown: Shutdown,
}

impl Workers {
    /// No workers yet; counts passes in `budget_worker_passes_total{worker,result}`.
    ///
    /// # Errors
    /// When the metric's name is taken.
    pub fn new(telemetry: &Telemetry, shutdown: Shutdown) -> prometheus::Result<Self> {
        Ok(Self {
            tasks: JoinSet::new(),
            metrics: WorkerMetrics::register(telemetry.registry())?,
            shutdown,
        })
    }

    /// Repeats the passes of `worker` under the leases that are valid at the start of each pass.
    pub(super) fn start<W: LeaseWorker>(&mut self, worker: W, leases: &Leases) {
        let (worker, leases) = (Arc::new(Mutex::new(worker)), leases.clone());
        self.repeat(W::NAME, W::PERIOD, move || {
            let (worker, leases) = (Arc::clone(&worker), leases.clone());
            async move {
                let lost = |lease| leases.lost(lease);
                worker.lock().await.pass(&leases.current(), lost).await
            }
        });
    }

    /// Repeats `pass` until the process ends: at once after [`Next::Now`], after about `period` otherwise, and after up to
    /// ten periods while passes fail. A pass is never interrupted. Pauses are jittered, so that processes drift apart.
    pub fn repeat<F, E>(
        &mut self,
        name: &'static str,
        period: Duration,
        mut pass: impl FnMut() -> F + Send + 'static,
    ) where
        F: Future<Output = Result<Next, E>> + Send,
        E: fmt::Display + Send,
    {
        let (metrics, shutdown) = (self.metrics.clone(), self.shutdown.clone());
        let passes = metrics.passes;
        let count = move |result: &str| passes.with_label_values(&[name, result]).inc();
        self.tasks.spawn(async move {
            let mut failures = 0u32;
            while !shutdown.has_begun() {
                let outcome = pass().await;
                count(if outcome.is_ok() { "ok" } else { "failed" });
                let pause = match outcome {
                    Ok(next) => {
                        if failures > 0 {
                            warn!(worker = name, failures, "worker `{name}` recovered after {failures} failed passes");
                        }
                        failures = 0;
                        match next {
                            Next::Now => continue,
                            Next::Idle => period,
                            Next::After(pause) => pause,
                        }
                    }
                    Err(error) => {
                        failures += 1;
                        // One warning per series of failures; the counter has the rest.
                        match failures {
                            1 => warn!(worker = name, error = %error, "worker `{name}` failed and retries: {error}"),
                            _ => debug!(worker = name, error = %error, failures, "worker `{name}` failed again"),
                        }
                        period * failures.min(10)
                    }
                };
                let jittered = pause.mul_f64(rand::random_range(0.75..1.25));
                tokio::select! {
                    () = tokio::time::sleep(jittered) => {}
                    () = shutdown.begun() => {}
                }
            }
        });
    }

    /// Waits until the current pass of each worker is over, at most `grace`.
    pub async fn finished(mut self, grace: Duration) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            warn!("a background worker was aborted in the middle of a pass");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_worker_repeats_while_there_is_more_and_after_failures() {
        let (telemetry, shutdown) = (Telemetry::new().expect("distinct names"), Shutdown::new());
        let workers = Workers::new(&telemetry, shutdown.clone());
        let mut workers = workers.expect("distinct names");
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let end = shutdown.clone();
        workers.repeat("test", Duration::from_millis(1), move || {
            let run = count.fetch_add(1, Ordering::Relaxed);
            let end = end.clone();
            async move {
                match run {
                    0 | 1 => Ok(Next::Now),
                    2 => Err("no luck"),
                    3 => Ok(Next::Idle),
                    _ => {
                        end.begin();
                        Ok(Next::Now)
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
