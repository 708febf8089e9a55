//! Reads the rules for addresses of receivers after each claim. Deliveries that are claimed at the same time share one reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;
use tracing::warn;

use crate::egress::SecurityPolicy;
use crate::store::StoreError;

/// Reads the rules. Nothing is cached: each reading is for those who asked before it started.
#[derive(Default)]
pub(super) struct PolicyReader {
    started: AtomicU64,
    last: Mutex<Reading>,
}

#[derive(Default)]
struct Reading {
    number: u64,
    /// `None` where they could not be read.
    policy: Option<Arc<SecurityPolicy>>,
}

impl PolicyReader {
    /// The rules as they are now or in a moment; `None` where they cannot be read.
    pub async fn now(
        &self,
        read: impl Future<Output = Result<SecurityPolicy, StoreError>>,
    ) -> Option<Arc<SecurityPolicy>> {
        let started_before = self.started.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if last.number > started_before {
            return last.policy.clone();
        }
        let number = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        let policy = match read.await {
            Ok(policy) => Some(Arc::new(policy)),
            Err(failure) => {
                // The first of a series.
                if last.number == 0 || last.policy.is_some() {
                    warn!(error = %failure, "deliveries wait, because the rules for addresses cannot be read: {failure}");
                }
                None
            }
        };
        *last = Reading { number, policy };
        last.policy.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::Poll;

    use super::*;

    fn rules(allow_http: bool) -> SecurityPolicy {
        SecurityPolicy {
            blocked: Vec::new(),
            patterns: Vec::new(),
            allow_http,
        }
    }

    #[tokio::test]
    async fn a_call_during_a_read_waits_for_the_next_read() {
        let (reader, stored, reads) = (
            PolicyReader::default(),
            AtomicBool::new(false),
            AtomicU64::new(0),
        );
        let ask = || {
            reader.now(async {
                reads.fetch_add(1, Ordering::Relaxed);
                let found = rules(stored.load(Ordering::Relaxed));
                tokio::task::yield_now().await;
                Ok(found)
            })
        };
        let mut first = Box::pin(ask());
        assert!(
            std::future::poll_fn(|context| Poll::Ready(first.as_mut().poll(context)))
                .await
                .is_pending()
        );
        // It was read already.
        stored.store(true, Ordering::Relaxed);
        let later = async { tokio::join!(ask(), ask(), ask(), ask()) };
        let (first, later) = tokio::join!(first, later);
        assert!(!first.expect("rules").allow_http);
        for policy in [later.0, later.1, later.2, later.3] {
            assert!(policy.expect("rules").allow_http);
        }
        // The first of them reads at once, and the others share the reading behind it.
        assert_eq!(reads.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_cancelled_or_failed_read_does_not_stop_the_next() {
        let reader = PolicyReader::default();
        let mut given_up = Box::pin(reader.now(std::future::pending()));
        assert!(
            std::future::poll_fn(|context| Poll::Ready(given_up.as_mut().poll(context)))
                .await
                .is_pending()
        );
        drop(given_up);
        let failed = reader.now(async { Err(StoreError::Corrupt("rules".to_owned())) });
        assert!(failed.await.is_none());
        assert!(reader.now(async { Ok(rules(true)) }).await.is_some());
    }
}
