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
    word: Arc<watch::Sender<Word>>,
}

/// What has been said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    GoOn,
    /// With time for load balancers to notice.
    End,
    /// Without.
    EndAtOnce,
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
            word: Arc::new(watch::Sender::new(Word::GoOn)),
        }
    }

    /// A signal that SIGTERM gives, or SIGINT: then nobody balances load to this process, but somebody waits at a
    /// terminal. A second one ends the process without regard to requests.
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
                let word = tokio::select! {
                    _ = terminate.recv() => Word::End,
                    _ = interrupt.recv() => Word::EndAtOnce,
                };
                if already {
                    info!("stopping at once");
                    std::process::exit(130);
                }
                info!("stopping; a second signal stops at once");
                begun.say(word);
            }
        });
        Ok(shutdown)
    }

    /// Says that the process is to end.
    pub fn begin(&self) {
        self.say(Word::End);
    }

    /// The same, without time for load balancers to notice. Requests in flight are finished still.
    pub fn begin_at_once(&self) {
        self.say(Word::EndAtOnce);
    }

    fn say(&self, word: Word) {
        self.word.send_modify(|said| *said = word.max(*said));
    }

    /// Whether it has been said.
    pub fn has_begun(&self) -> bool {
        *self.word.borrow() >= Word::End
    }

    /// Waits until it is said.
    pub async fn begun(&self) {
        self.reached(Word::End).await;
    }

    /// Waits until it is said that load balancers need no time.
    pub async fn begun_at_once(&self) {
        self.reached(Word::EndAtOnce).await;
    }

    async fn reached(&self, word: Word) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.word.subscribe().wait_for(|said| *said >= word).await;
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

    #[tokio::test]
    async fn an_end_can_become_more_urgent_and_not_less() {
        let shutdown = Shutdown::new();
        shutdown.begin();
        let urgent = shutdown.begun_at_once();
        tokio::pin!(urgent);
        assert!(futures_pending(urgent.as_mut()).await);
        shutdown.begin_at_once();
        urgent.await;
        shutdown.begin();
        shutdown.begun_at_once().await;
    }

    async fn futures_pending(future: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = future => false,
            () = std::future::ready(()) => true,
        }
    }
}
