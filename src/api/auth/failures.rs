//! Counts of refused keys, which become events off the request path.
//!
//! Anybody can cause a 401, as often as they like. So a replica counts them in memory, for each key that exists and for all
//! others together, and goes to Redis with the first at once and with the rest of the minute when that is over. The counts
//! are exact, save what a replica had counted when it was killed.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::domain::api_key::secret::KeyId;
use crate::domain::cause::{Actor, Cause};
use crate::domain::ids::TenantId;
use crate::store::dispatcher::auth_failed::{Failures, Subject};
use crate::store::{Store, StoreError};

/// Keys of which a replica counts failures apart, about 500 bytes each. Those beyond count among the unknown.
const KEYS_MAX: usize = 1_024;

const MINUTE_MS: i64 = 60_000;
/// How soon to try again what Redis did not take.
const RETRY_MS: i64 = 1_000;

/// Refused keys that Redis does not know of yet.
pub struct AuthFailures {
    store: Store,
    tallies: Mutex<HashMap<Subject, Tally>>,
    fresh: Notify,
}

/// The failures of one subject that Redis does not know of.
#[derive(Debug, Default)]
struct Tally {
    /// `None`: Redis knows all.
    pending: Option<Failures>,
    /// Not to be sent before, in milliseconds.
    next_ms: i64,
}

impl AuthFailures {
    /// None yet.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            tallies: Mutex::default(),
            fresh: Notify::new(),
        }
    }

    /// Counts a failure of a key that exists, or of an unknown one, like [`AuthFailures::count`].
    pub fn count_key(&self, key: Option<(&TenantId, &KeyId)>, reason: &'static str, cause: &Cause) {
        let (subject, actor) = match key {
            Some((tenant, key_id)) => {
                let (tenant, key_id) = (tenant.clone(), key_id.clone());
                let actor = Actor::ApiKey(key_id.clone());
                (Subject::Key { tenant, key_id }, actor)
            }
            None => (Subject::Unknown, Actor::UnknownKey),
        };
        let cause = || Cause {
            actor,
            ..cause.clone()
        };
        self.count(subject, reason, cause);
    }

    /// Counts a failure. Neither waits nor fails. `cause` is called for the first of a minute.
    pub fn count(&self, subject: Subject, reason: &'static str, cause: impl FnOnce() -> Cause) {
        let mut tallies = self.tallies.lock();
        let known = tallies.contains_key(&subject);
        let subject = match known || tallies.len() < KEYS_MAX {
            true => subject,
            false => Subject::Unknown,
        };
        let tally = tallies.entry(subject).or_insert_with(|| {
            self.fresh.notify_one();
            Tally::default()
        });
        let pending = tally.pending.get_or_insert_with(|| Failures {
            count: 0,
            context: cause().lines(),
            reason,
        });
        pending.count += 1;
    }

    /// Sends what is due at this time of Redis's clock. Counts that Redis refuses are kept.
    ///
    /// # Errors
    /// [`StoreError`], the first.
    pub async fn run_once(&self, now_ms: i64) -> Result<(), StoreError> {
        let mut failed = None;
        for (subject, failures) in self.take(now_ms) {
            if matches!(failed, Some(StoreError::Unavailable(_))) {
                self.put_back(subject, failures, now_ms);
                continue;
            }
            let sent = self
                .store
                .auth_failed(&subject, Some(&failures), None)
                .await;
            let Err(error) = sent else { continue };
            // Counts that may have been stored must not be sent again.
            let counted = matches!(&error, StoreError::Unavailable(why) if why.effect_unknown());
            if !counted {
                self.put_back(subject, failures, now_ms);
            }
            failed = Some(error);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Sends everything: the process ends.
    ///
    /// # Errors
    /// [`StoreError`], the first.
    pub async fn run_last(&self) -> Result<(), StoreError> {
        let now_ms = self.store.clock().now_ms();
        for tally in self.tallies.lock().values_mut() {
            tally.next_ms = now_ms;
        }
        self.run_once(now_ms).await
    }

    /// Waits for a failure of a subject that had none lately.
    pub async fn fresh(&self) {
        self.fresh.notified().await;
    }

    /// Takes what is due; until the minute is over, more of the same is only counted. Forgets subjects without a failure lately.
    fn take(&self, now_ms: i64) -> Vec<(Subject, Failures)> {
        let mut tallies = self.tallies.lock();
        tallies.retain(|_, tally| tally.pending.is_some() || tally.next_ms > now_ms);
        let due = tallies
            .iter_mut()
            .filter(|(_, tally)| tally.next_ms <= now_ms);
        due.filter_map(|(subject, tally)| {
            tally.next_ms = now_ms - now_ms.rem_euclid(MINUTE_MS) + MINUTE_MS;
            Some((subject.clone(), tally.pending.take()?))
        })
        .collect()
    }

    fn put_back(&self, subject: Subject, failures: Failures, now_ms: i64) {
        let mut tallies = self.tallies.lock();
        let tally = tallies.entry(subject).or_default();
        let since = tally.pending.take().map_or(0, |since| since.count);
        tally.next_ms = now_ms + RETRY_MS;
        tally.pending = Some(Failures {
            count: failures.count + since,
            ..failures
        });
    }
}
