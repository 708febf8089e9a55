//! The end of a process: one signal that everything waits for.

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::info;

/// Tells how the process ended: an error and its causes go to standard error, one line each.
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

/// Says that the process is to end. Cheap to clone; once said, it stays said.
#[derive(Debug, Clone)]
pub struct Shutdown {
    begun: Arc<watch::Sender<bool>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A signal that somebody else gives by [`Shutdown::begin`].
    pub fn new() -> Self {
        Self {
            begun: Arc::new(watch::Sender::new(false)),
        }
    }

    /// A signal that SIGTERM or SIGINT gives. A second one ends the process at once.
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
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                if already {
                    info!("stopping at once");
                    std::process::exit(130);
                }
                info!("stopping; a second signal stops at once");
                begun.begin();
            }
        });
        Ok(shutdown)
    }

    /// Says that the process is to end.
    pub fn begin(&self) {
        self.begun.send_replace(true);
    }

    /// Whether it has been said.
    pub fn has_begun(&self) -> bool {
        *self.begun.borrow()
    }

    /// Waits until it is said.
    pub async fn begun(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.begun.subscribe().wait_for(|begun| *begun).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_clones_hear_of_it_also_later() {
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
}
