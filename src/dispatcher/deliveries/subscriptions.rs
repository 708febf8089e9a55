//! What a dispatcher remembers of subscriptions: which events are for them. Scripts prove by a mark that it still holds.

use std::sync::Arc;

use quick_cache::sync::Cache;
use tracing::error;

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::{Record, RecordError};
use crate::domain::webhook::{Seen, Subscription, WebhookStatus};
use crate::store::{Store, StoreError};

/// Owners that are remembered, most of which have no subscription.
const OWNERS_MAX: usize = 20_000;

/// A subscription that is active.
#[derive(Debug, Clone)]
pub(super) struct Hook {
    pub subscription: Subscription,
    pub epoch: i64,
    since: Since,
}

/// Since when a subscription is active.
#[derive(Debug, Clone, Copy)]
struct Since {
    /// The outbox entry of its own partition behind which events are for it.
    entry: EntryId,
    /// The same as a time, in milliseconds, for other partitions.
    ms: i64,
}

/// The active subscriptions of an owner, in order of their ids.
#[derive(Debug, Clone, Default)]
pub(super) struct Hooks {
    /// `''` where there are none at all.
    pub mark: String,
    pub active: Arc<Vec<Hook>>,
}

/// Where an outbox lies, seen from a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outbox {
    /// It is the one in which the subscription's own changes are.
    Same,
    /// The same clock times both.
    SameNode,
    /// Another node's clock times it.
    OtherNode,
}

impl Outbox {
    /// Where the outbox of a partition lies, seen from a subscription in `home`.
    pub async fn of(
        store: &Store,
        home: Partition,
        partition: Partition,
    ) -> Result<Self, StoreError> {
        if home == partition {
            return Ok(Self::Same);
        }
        let outbox = |partition| store.keys().outbox(partition);
        Ok(
            match store
                .share_a_node(&outbox(home), &outbox(partition))
                .await?
            {
                true => Self::SameNode,
                false => Self::OtherNode,
            },
        )
    }
}

/// What happened when.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    /// Its pointer in the outbox.
    pub entry: EntryId,
    pub at_ms: i64,
    /// Where that outbox lies.
    pub outbox: Outbox,
}

impl Hook {
    fn read(record: &Record) -> Result<Self, RecordError> {
        let since = record.get("since").and_then(EntryId::parse);
        Ok(Self {
            subscription: Subscription::from_record(record)?,
            epoch: record.optional("epoch")?.unwrap_or(0),
            since: Since {
                entry: since.ok_or_else(|| RecordError::of("since"))?,
                ms: record.integer("since_ms")?,
            },
        })
    }

    /// Whether it gets an event.
    pub fn gets(&self, event: &Seen<'_>, when: When) -> bool {
        self.since.includes(when) && self.subscription.selects(event)
    }
}

impl Since {
    fn includes(self, when: When) -> bool {
        // Entries go on from the last one where the clock went back, the times of events do not.
        let entry_ms = i64::try_from(when.entry.ms).unwrap_or(i64::MAX);
        let at_ms = when.at_ms.max(entry_ms);
        match when.outbox {
            Outbox::Same => when.entry > self.entry,
            Outbox::SameNode => at_ms >= self.ms,
            Outbox::OtherNode => at_ms >= self.ms - CLOCKS_MS,
        }
    }
}

/// By how much the clocks of two nodes may differ, in milliseconds.
const CLOCKS_MS: i64 = 1_000;

/// The subscriptions of some owners.
pub(super) struct Remembered {
    store: Store,
    owners: Cache<String, Hooks>,
}

impl Remembered {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            owners: Cache::new(OWNERS_MAX),
        }
    }

    /// The subscriptions of these owners, perhaps as they were a while ago.
    pub async fn of(&self, owners: &[String]) -> Result<Vec<Hooks>, StoreError> {
        let unknown: Vec<_> = owners
            .iter()
            .filter(|owner| self.owners.get(*owner).is_none())
            .cloned()
            .collect();
        if !unknown.is_empty() {
            let marks = self.store.webhook_marks(&unknown).await?;
            let mut unmarked = Vec::new();
            for (owner, mark) in unknown.into_iter().zip(marks) {
                match mark {
                    None => unmarked.push(owner),
                    Some(mark) => {
                        let hooks = self.read(&owner, mark).await?;
                        self.owners.insert(owner, hooks);
                    }
                }
            }
            let have = self.store.have_webhooks(&unmarked).await?;
            for (owner, has_some) in unmarked.into_iter().zip(have) {
                let hooks = match has_some {
                    false => Hooks::default(),
                    true => {
                        let mark = self.store.adopt_webhooks(&owner, &[]).await?;
                        self.read(&owner, mark).await?
                    }
                };
                self.owners.insert(owner, hooks);
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

    async fn read(&self, owner: &str, mark: String) -> Result<Hooks, StoreError> {
        let mut records = self.store.webhooks_of_owner(owner).await?;
        let lacking =
            |(_, record): &&(String, Record)| !record.is_empty() && record.get("since").is_none();
        let lacking = records.iter().filter(lacking);
        let lacking: Vec<(String, String)> = lacking
            .map(|(id, record)| {
                let subscription = Subscription::from_record(record);
                (
                    id.clone(),
                    subscription.map_or_else(|_| String::new(), |it| it.watched()),
                )
            })
            .collect();
        if !lacking.is_empty() {
            // Of a former release: events are for it from now on.
            self.store.adopt_webhooks(owner, &lacking).await?;
            records = self.store.webhooks_of_owner(owner).await?;
        }
        let mut active = Vec::new();
        for (id, record) in records {
            // Deleted since its id was read.
            if record.is_empty() {
                continue;
            }
            match Hook::read(&record) {
                Ok(hook) if hook.subscription.status == WebhookStatus::Active => active.push(hook),
                Ok(_) => {}
                Err(damage) => error!(
                    webhook.id = id, error = %damage,
                    "webhook `{id}` gets no events, because its record is damaged: {damage}"
                ),
            }
        }
        Ok(Hooks {
            mark,
            active: Arc::new(active),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_for_who_was_active_by_entry_by_time_or_by_time_within_a_second_between_nodes() {
        let since = Since {
            entry: EntryId::parse("5000-1").expect("an entry"),
            ms: 5_000,
        };
        let includes = |id: &str, at_ms, outbox| {
            since.includes(When {
                entry: EntryId::parse(id).expect("an entry"),
                at_ms,
                outbox,
            })
        };
        // Its own change is not behind its entry.
        assert!(!includes("5000-1", 5_000, Outbox::Same));
        assert!(includes("5000-2", 5_000, Outbox::Same));
        for (first_ms, outbox) in [(5_000, Outbox::SameNode), (4_000, Outbox::OtherNode)] {
            let id = |ms: i64| format!("{ms}-0");
            assert!(includes(&id(first_ms), first_ms, outbox), "{outbox:?}");
            let before = first_ms - 1;
            assert!(!includes(&id(before), before, outbox), "{outbox:?}");
            // The clock went back, and entries went on.
            assert!(includes(&id(first_ms), before, outbox), "{outbox:?}");
        }
    }
}
