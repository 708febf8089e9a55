//! Events ready to be sent, and a cache of them: most are sent several times, and soon after they were read.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::timeout;
use tracing::debug;

use crate::admin::webhooks::sending::EventHeaders;
use crate::domain::event::StoredEvent;
use crate::domain::record::Record;
use crate::domain::webhook::DeliveryId;
use crate::spans::{AttemptSpan, SpanCause};
use crate::store::dispatcher::deliveries::{ClaimedDelivery, EventPlace};

/// An event, ready to be sent.
pub(super) struct RenderedEvent {
    pub body: Bytes,
    at_ms: i64,
    pub event_id: String,
    pub event_type: String,
    pub request_id: Option<String>,
    pub trace_id: String,
    trace_flags: Option<String>,
}

impl RenderedEvent {
    /// The event that a place leads to; `None` where it cannot be rendered.
    pub fn of(place: &EventPlace, facts: &Record) -> Option<Self> {
        let entry = place.entry.to_string();
        let stored = StoredEvent {
            partition: place.partition,
            tenant: &place.tenant,
            entry: &entry,
            facts,
        };
        let text = |name: &str| facts.get(name).map(str::to_owned);
        Some(Self {
            body: stored.envelope().ok()?.into(),
            at_ms: facts.integer("at_ms").ok()?,
            event_id: stored.event_id(),
            event_type: text("type")?,
            request_id: text("request_id"),
            trace_id: text("trace_id")?,
            trace_flags: text("trace_flags"),
        })
    }

    /// How long after the event a delivery was claimed for its first attempt; `None` for replays, and for others than the first.
    pub fn delay(&self, claim: &ClaimedDelivery) -> Option<Duration> {
        let partition = claim.owner.partition();
        let live = DeliveryId::of(partition, &self.event_id, &claim.subscription, None);
        let delay = u64::try_from(claim.claimed_ms - self.at_ms).unwrap_or(0);
        (claim.attempts == 1 && live == claim.id).then(|| Duration::from_millis(delay))
    }

    pub fn headers(&self, span: Option<&AttemptSpan>) -> EventHeaders<'_> {
        EventHeaders {
            event_id: &self.event_id,
            event_type: &self.event_type,
            request_id: self.request_id.as_deref(),
            trace_id: &self.trace_id,
            trace_flags: self.trace_flags.as_deref(),
            span_id: span.map(AttemptSpan::id),
        }
    }

    /// Logs that an attempt starts, before the next one of its lane may.
    pub fn log_start(&self, claim: &ClaimedDelivery) {
        debug!(
            delivery.id = claim.id.as_str(),
            webhook.id = claim.subscription.as_str(),
            event.id = self.event_id,
            trace.id = self.trace_id,
            attempt = claim.attempts,
            "attempt {} of delivery {} starts",
            claim.attempts,
            claim.id
        );
    }

    pub fn span(&self, claim: &ClaimedDelivery) -> Option<AttemptSpan> {
        let cause = SpanCause {
            trace_id: &self.trace_id,
            request_id: self.request_id.as_deref(),
            trace_flags: self.trace_flags.as_deref(),
        };
        let (delivery, webhook) = (claim.id.as_str(), claim.subscription.as_str());
        AttemptSpan::begin(cause, delivery, webhook, claim.attempts)
    }
}

/// Memory of the cache, in bytes.
const CACHE_BYTES: u64 = 16 << 20;

/// How long to wait for another task that reads the same event.
const OTHERS: Duration = Duration::from_millis(200);

/// Events for which the cache is laid out at first.
const EVENTS_AT_FIRST: usize = 1_000;

/// Rendered events by their places, which never change. Cheap to clone.
#[derive(Clone)]
pub(super) struct EventCache(Arc<Cache<EventPlace, Arc<RenderedEvent>, ByBytes>>);

/// About the memory that an event takes.
#[derive(Clone)]
struct ByBytes;

impl Weighter<EventPlace, Arc<RenderedEvent>> for ByBytes {
    fn weight(&self, _: &EventPlace, event: &Arc<RenderedEvent>) -> u64 {
        let texts = event.event_id.len() + event.event_type.len() + event.trace_id.len();
        (event.body.len() + texts + 512) as u64
    }
}

impl Default for EventCache {
    fn default() -> Self {
        let cache = Cache::with_weighter(EVENTS_AT_FIRST, CACHE_BYTES, ByBytes);
        Self(Arc::new(cache))
    }
}

impl EventCache {
    /// An event; reads it if it is not cached and no other task is reading it.
    ///
    /// # Errors
    /// Those of `read`.
    pub(super) async fn get<E>(
        &self,
        place: &EventPlace,
        read: impl Future<Output = Result<RenderedEvent, E>>,
    ) -> Result<Arc<RenderedEvent>, E> {
        let known = timeout(OTHERS, self.0.get_value_or_guard_async(place));
        let guard = match known.await {
            Ok(Ok(event)) => return Ok(event),
            Ok(Err(guard)) => Some(guard),
            Err(_) => None,
        };
        let event = Arc::new(read.await?);
        if let Some(guard) = guard {
            // It does not fit where it was pushed out meanwhile.
            let _ = guard.insert(Arc::clone(&event));
        }
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;
    use crate::domain::record::Record;

    fn place() -> EventPlace {
        EventPlace::parse("05f acme 20261123 1763859275000-7").expect("a place")
    }

    fn event() -> RenderedEvent {
        let facts = [
            ("type", "tenant.updated"),
            ("at_ms", "1763859275000"),
            ("source", "service-admin"),
            ("actor", "admin"),
            ("trace_id", "0123456789abcdef0123456789abcdef"),
            ("data.changed_fields", "name"),
        ];
        let pairs = facts
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value.to_owned()]);
        RenderedEvent::of(&place(), &Record::from_pairs(pairs.collect())).expect("sound facts")
    }

    #[tokio::test]
    async fn an_event_sent_to_many_subscriptions_is_read_once() {
        let (cache, reads) = (EventCache::default(), Arc::new(AtomicUsize::new(0)));
        let mut all = JoinSet::new();
        for _ in 0..50 {
            let (cache, reads) = (cache.clone(), Arc::clone(&reads));
            all.spawn(async move {
                let read = async {
                    reads.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    Ok::<_, ()>(event())
                };
                cache.get(&place(), read).await
            });
        }
        let all = all.join_all().await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn no_task_waits_long_for_a_failing_reader() {
        let cache = EventCache::default();
        let stuck = cache.clone();
        let stuck = tokio::spawn(async move {
            let read = pending::<Result<RenderedEvent, ()>>();
            stuck.get(&place(), read).await.map(|_| ())
        });
        tokio::task::yield_now().await;
        let read = async { Ok::<_, ()>(event()) };
        assert!(cache.get(&place(), read).await.is_ok());
        stuck.abort();
        let _ = stuck.await;
        let place = place();
        let failed = cache.get(&place, async { Err::<RenderedEvent, _>("away") });
        assert_eq!(failed.await.map(|_| ()), Err("away"));
    }
}
