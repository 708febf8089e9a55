//! Shutdown: one signal per process that every task waits for.

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::info;

/// The exit code of an outcome; prints an error and its causes to standard error, one line each.
pub fn exit_code(outcome: Result<(), Box<dyn Error>>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        eprintln!("  because: {inner}");
        cause = inner.source();
    }
    ExitCode::FAILURE
}

/// The shutdown signal of a process. Cheap to clone; it cannot be revoked.
#[derive(Debug, Clone)]
pub struct Shutdown {
    phase: Arc<watch::Sender<Phase>>,
}

/// A phase of the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    /// Stopping, with time for load balancers to notice.
    Graceful,
    /// Stopping, without that time.
    Immediate,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A shutdown that begins with [`Shutdown::begin`].
    pub fn new() -> Self {
        Self {
            phase: Arc::new(watch::Sender::new(Phase::Running)),
        }
    }

    /// A shutdown that begins with SIGTERM, or immediately with SIGINT, because then a person waits at a terminal and no
    /// load balancer sends requests. A second signal exits at once and drops requests.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let begun = shutdown.clone();
        tokio::spawn(async move {
            for already in [false, true] {
                let phase = tokio::select! {
                    _ = terminate.recv() => Phase::Graceful,
                    _ = interrupt.recv() => Phase::Immediate,
                };
                if already {
                    info!("stopping at once");
                    std::process::exit(130);
                }
                info!("stopping; a second signal stops at once");
                begun.advance(phase);
            }
        });
        Ok(shutdown)
    }

    /// Begins the shutdown.
    pub fn begin(&self) {
        self.advance(Phase::Graceful);
    }

    /// Begins the shutdown without time for load balancers to notice. Requests in flight still finish.
    pub fn begin_at_once(&self) {
        self.advance(Phase::Immediate);
    }

    fn advance(&self, phase: Phase) {
        self.phase
            .send_modify(|reached| *reached = phase.max(*reached));
    }

    /// Whether the shutdown has begun.
    pub fn has_begun(&self) -> bool {
        *self.phase.borrow() >= Phase::Graceful
    }

    /// Waits until the shutdown begins.
    pub async fn begun(&self) {
        self.reached(Phase::Graceful).await;
    }

    /// Waits until an immediate shutdown begins.
    pub async fn begun_at_once(&self) {
        self.reached(Phase::Immediate).await;
    }

    async fn reached(&self, phase: Phase) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_clones_see_the_shutdown_even_if_they_look_later() {
        let shutdown = Shutdown::new();
        let waiting = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.begun().await }
        });
        assert!(!shutdown.has_begun());
        shutdown.clone().begin();
        waiting.await.expect("it ends");
        shutdown.begun().await;
        assert!(shutdown.has_begun());
    }

    #[tokio::test]
    async fn a_shutdown_can_become_immediate_but_not_graceful_again() {
        let shutdown = Shutdown::new();
        shutdown.begin();
        let urgent = shutdown.begun_at_once();
        tokio::pin!(urgent);
        assert!(is_pending(urgent.as_mut()).await);
        shutdown.begin_at_once();
        urgent.await;
        shutdown.begin();
        shutdown.begun_at_once().await;
    }

    async fn is_pending(future: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = future => false,
            () = std::future::ready(()) => true,
        }
    }
}
