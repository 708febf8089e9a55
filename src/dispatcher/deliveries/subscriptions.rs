//! Caches which subscriptions are active, and which events are for them. Scripts prove by a mark that this still holds.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::IntCounter;
use quick_cache::sync::Cache;
use tokio::time::Instant;
use tracing::warn;

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::{Record, RecordError};
use crate::domain::webhook::{EventSummary, Owner, Subscription, SubscriptionId, WebhookStatus};
use crate::store::{Store, StoreError};

/// Cached owners, most of which have no subscription.
const OWNERS_MAX: usize = 20_000;

/// The pause before an unreadable record is read again.
const UNREADABLE: Duration = Duration::from_secs(5);

/// A subscription that is active; or perhaps is, where its record cannot be read.
#[derive(Debug, Clone)]
pub(super) struct Subscriber {
    pub id: SubscriptionId,
    pub owner: Owner,
    /// `None` while its record cannot be read.
    active: Option<Active>,
}

#[derive(Debug, Clone)]
struct Active {
    subscription: Subscription,
    epoch: i64,
    since: Since,
}

/// Start of the active period of a subscription.
#[derive(Debug, Clone, Copy)]
struct Since {
    /// The outbox entry of its own partition after which events are for it.
    entry: EntryId,
    /// The same as a time, in milliseconds, for other partitions.
    ms: i64,
}

/// The active subscriptions of an owner, in order of their ids.
#[derive(Debug, Clone, Default)]
pub(super) struct Subscribers {
    /// `''` where there are none at all.
    pub mark: String,
    pub active: Arc<Vec<Subscriber>>,
    /// When to read them again, because a record cannot be read.
    again: Option<Instant>,
    /// Whether their list cannot be read. `active` is empty then.
    pub is_unknown: bool,
}

impl Subscribers {
    fn unknown() -> Self {
        Self {
            again: Some(Instant::now() + UNREADABLE),
            is_unknown: true,
            ..Self::default()
        }
    }
}

/// Where an outbox lies, relative to a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutboxLocation {
    /// It has the subscription's own changes.
    Same,
    /// The same clock times both.
    SameNode,
    /// Another node's clock times it.
    OtherNode,
}

impl OutboxLocation {
    /// Where the outbox of a partition lies, relative to a subscription in `home`.
    pub async fn of(
        store: &Store,
        home: Partition,
        partition: Partition,
    ) -> Result<Self, StoreError> {
        if home == partition {
            return Ok(Self::Same);
        }
        let (home, outbox) = (store.keys().outbox(home), store.keys().outbox(partition));
        Ok(match store.share_a_node(&home, &outbox).await? {
            true => Self::SameNode,
            false => Self::OtherNode,
        })
    }
}

/// Time of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occurrence {
    /// Its entry in the outbox.
    pub entry: EntryId,
    pub at_ms: i64,
    /// Where that outbox lies.
    pub outbox: OutboxLocation,
}

impl Active {
    /// `None` where the subscription is not active.
    fn read(record: &Record) -> Result<Option<Self>, RecordError> {
        let status = record.get("status").and_then(WebhookStatus::parse);
        if status.is_some_and(|status| status != WebhookStatus::Active) {
            return Ok(None);
        }
        let since = record.get("since").and_then(EntryId::parse);
        Ok(Some(Self {
            subscription: Subscription::from_record(record)?,
            epoch: record.optional("epoch")?.unwrap_or(0),
            since: Since {
                entry: since.ok_or_else(|| RecordError::of("since"))?,
                ms: record.integer("since_ms")?,
            },
        }))
    }
}

impl Subscriber {
    /// How often it has stopped being active; `None` while its record cannot be read.
    pub fn epoch(&self) -> Option<i64> {
        Some(self.active.as_ref()?.epoch)
    }

    /// Whether it gets an event, or may get it, where its record cannot be read.
    pub fn gets(&self, event: &EventSummary<'_>, when: Occurrence) -> bool {
        let active = self.active.as_ref();
        active.is_none_or(|it| it.since.includes(when) && it.subscription.selects(event))
    }
}

impl Since {
    fn includes(self, when: Occurrence) -> bool {
        // After the clock is set back, entries continue from the last one; the times of events do not.
        let entry_ms = i64::try_from(when.entry.ms).unwrap_or(i64::MAX);
        let at_ms = when.at_ms.max(entry_ms);
        match when.outbox {
            OutboxLocation::Same => when.entry > self.entry,
            OutboxLocation::SameNode => at_ms >= self.ms,
            OutboxLocation::OtherNode => at_ms >= self.ms - CLOCKS_MS,
        }
    }
}

/// Tolerated difference between the clocks of two nodes, in milliseconds.
const CLOCKS_MS: i64 = 1_000;

/// A cache of the active subscriptions of owners.
pub(super) struct SubscriptionCache {
    store: Store,
    owners: Cache<String, Subscribers>,
    /// Counts records that cannot be read, each time.
    unreadable: Option<IntCounter>,
    /// When the directory of all tenants could not be completed.
    directory_failed_at: Mutex<Option<Instant>>,
}

impl SubscriptionCache {
    pub fn new(store: Store, unreadable: Option<IntCounter>) -> Self {
        Self {
            store,
            owners: Cache::new(OWNERS_MAX),
            unreadable,
            directory_failed_at: Mutex::default(),
        }
    }

    /// The subscriptions of these owners, perhaps as they were a while ago.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn of(&self, owners: &[String]) -> Result<Vec<Subscribers>, StoreError> {
        let unknown: Vec<_> = owners
            .iter()
            .filter(|owner| !self.knows(owner))
            .cloned()
            .collect();
        if !unknown.is_empty() {
            let marks = self.store.webhook_marks(&unknown).await?;
            let mut unmarked = Vec::new();
            for (owner, mark) in unknown.into_iter().zip(marks) {
                match mark {
                    None => unmarked.push(owner),
                    Some(mark) => {
                        let subscribers = self.read(&owner, mark).await;
                        let subscribers = self.or_unknown(&owner, subscribers)?;
                        self.owners.insert(owner, subscribers);
                    }
                }
            }
            let have = self.store.have_webhooks(&unmarked).await?;
            for (owner, has_some) in unmarked.into_iter().zip(have) {
                let subscribers = match has_some {
                    false => Subscribers::default(),
                    true => self.or_unknown(&owner, self.adopt(&owner).await)?,
                };
                self.owners.insert(owner, subscribers);
            }
        }
        let known = |owner: &String| self.owners.get(owner).unwrap_or_default();
        Ok(owners.iter().map(known).collect())
    }

    /// Forgets what has changed.
    pub fn forget(&self, owners: &[String]) {
        for owner in owners {
            self.owners.remove(owner);
        }
    }

    fn knows(&self, owner: &str) -> bool {
        let known = self.owners.get(owner);
        known.is_some_and(|subscribers| subscribers.again.is_none_or(|at| Instant::now() < at))
    }

    /// Gives an owner's subscriptions a mark, and reads them.
    async fn adopt(&self, owner: &str) -> Result<Subscribers, StoreError> {
        let mark = self.store.adopt_webhooks(owner, &[]).await?;
        self.read(owner, mark).await
    }

    /// Counts and logs that an owner's list holds another type. Other errors pass.
    fn or_unknown(
        &self,
        owner: &str,
        read: Result<Subscribers, StoreError>,
    ) -> Result<Subscribers, StoreError> {
        let damage = match read {
            Err(damage) if damage.is_wrong_type() => damage,
            read => return read,
        };
        let effect = format!("the webhooks of `{owner}` get no events");
        self.note_unreadable(&self.store.webhooks_key(owner), &effect, &damage);
        Ok(Subscribers::unknown())
    }

    async fn read(&self, owner: &str, mark: String) -> Result<Subscribers, StoreError> {
        let mut records = self.store.webhooks_of_owner(owner).await?;
        let lacking = records.iter().filter_map(|(id, record)| {
            let record = record.as_ref().ok()?;
            let lacks = !record.is_empty() && record.get("since").is_none();
            let watched = || Subscription::from_record(record).map(|it| it.watched());
            lacks.then(|| (id.clone(), watched().unwrap_or_default()))
        });
        let lacking: Vec<(String, String)> = lacking.collect();
        if !lacking.is_empty() {
            // Of a former release: events are for it from now on.
            self.store.adopt_webhooks(owner, &lacking).await?;
            records = self.store.webhooks_of_owner(owner).await?;
        }
        let present = records.iter().filter(|(_, record)| {
            let record = record.as_ref();
            record.is_ok_and(|record| !record.is_empty())
        });
        let present: Vec<&str> = present.map(|(id, _)| id.as_str()).collect();
        let (mut active_ones, mut again) = (Vec::new(), None);
        if !self.complete_directory(owner, &present).await {
            again = Some(Instant::now() + UNREADABLE);
        }
        for (id, record) in records {
            let (Some(id), Some(owner)) = (SubscriptionId::parse(&id), Owner::parse(owner)) else {
                let effect = format!("its member `{id}` is ignored");
                self.note_unreadable(&self.store.webhooks_key(owner), &effect, &"no webhook id");
                continue;
            };
            let read = match record {
                // Deleted since its id was read.
                Ok(record) if record.is_empty() => continue,
                Ok(record) => Active::read(&record).map_err(|damage| damage.to_string()),
                Err(failure) => Err(failure.to_string()),
            };
            if let Err(damage) = &read {
                let key = self.store.keys().webhook(id.partition(), id.as_str());
                let effect = format!("events for webhook `{id}` wait");
                self.note_unreadable(&key, &effect, damage);
                again = Some(Instant::now() + UNREADABLE);
            }
            let active = match read {
                Ok(None) => continue,
                Ok(active) => active,
                Err(_) => None,
            };
            active_ones.push(Subscriber { id, owner, active });
        }
        Ok(Subscribers {
            mark,
            active: Arc::new(active_ones),
            again,
            is_unknown: false,
        })
    }

    /// Adds subscriptions that the directory of all tenants lacks. Returns false if that is to be tried again. While the node of the
    /// directory is out of reach, only one owner waits for it.
    async fn complete_directory(&self, owner: &str, present: &[&str]) -> bool {
        let is_recent = |at: Instant| at.elapsed() < UNREADABLE;
        if self.directory_failed_at.lock().is_some_and(is_recent) {
            return false;
        }
        let Err(error) = self.store.complete_webhook_directory(present).await else {
            return true;
        };
        warn!(%error, "lists over all tenants may lack webhooks of `{owner}`: {error}");
        *self.directory_failed_at.lock() = Some(Instant::now());
        false
    }

    /// Counts a key that cannot be read, and logs it with what follows.
    fn note_unreadable(&self, key: &str, effect: &str, damage: &dyn Display) {
        if let Some(unreadable) = &self.unreadable {
            unreadable.inc();
        }
        self.store.log_unreadable(key, effect, &damage.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w1_an_event_is_for_subscriptions_that_were_active_at_its_entry_or_time() {
        let since = Since {
            entry: EntryId::parse("5000-1").expect("an entry"),
            ms: 5_000,
        };
        let includes = |id: &str, at_ms, outbox| {
            since.includes(Occurrence {
                entry: EntryId::parse(id).expect("an entry"),
                at_ms,
                outbox,
            })
        };
        // Its own change is not after its entry.
        assert!(!includes("5000-1", 5_000, OutboxLocation::Same));
        assert!(includes("5000-2", 5_000, OutboxLocation::Same));
        for (first_ms, outbox) in [
            (5_000, OutboxLocation::SameNode),
            (4_000, OutboxLocation::OtherNode),
        ] {
            let id = |ms: i64| format!("{ms}-0");
            assert!(includes(&id(first_ms), first_ms, outbox), "{outbox:?}");
            let before = first_ms - 1;
            assert!(!includes(&id(before), before, outbox), "{outbox:?}");
            // The clock was set back, and entries continued.
            assert!(includes(&id(first_ms), before, outbox), "{outbox:?}");
        }
    }
}
