//! Restores lanes from the index of deliveries, where one was deleted because it was damaged.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{error, info};

use super::inner::{Inner, log_damage};
use crate::domain::webhook::SubscriptionId;
use crate::store::dispatcher::restore_lanes::{RestoreLanes, RestoreLanesReply};
use crate::store::{Day, Lease, StoreError};

/// How often it is tried while deliveries are queued meanwhile, and the pause between.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// The pause until it is begun again for a subscription: its window says so for as long as it has to be. The longer one is for what
/// would read as much in vain.
const AGAIN: Duration = Duration::from_secs(4);
const AGAIN_IN_VAIN: Duration = Duration::from_secs(600);

impl Inner {
    /// Restores the lanes and counts of subscriptions.
    pub async fn restore(self: Arc<Self>, lease: Lease, subscriptions: Vec<SubscriptionId>) {
        let mut restored = false;
        for id in subscriptions {
            if !self.is_time_to_restore(&id) {
                continue;
            }
            match self.restore_one(lease, &id).await {
                Ok(done) => restored |= done,
                Err(failure) => log_unrestored(&id, &failure.to_string()),
            }
        }
        if restored {
            self.look_again(lease.partition, Duration::ZERO);
            self.changed.look();
        }
    }

    /// Restores those of all subscriptions that have something in flight: which of them lost a record is not known.
    pub async fn restore_all(self: Arc<Self>, lease: Lease) {
        match self.store.subscriptions_in_flight(lease.partition).await {
            Ok(found) => self.restore(lease, found.into_iter().collect()).await,
            Err(failure) => {
                let partition = lease.partition;
                error!(%partition, error = %failure, "lanes cannot be restored: {failure}");
            }
        }
    }

    fn is_time_to_restore(&self, id: &SubscriptionId) -> bool {
        let (mut pauses, now) = (self.restore_pauses(), Instant::now());
        pauses.retain(|_, until| *until > now);
        let is_time = !pauses.contains_key(id);
        if is_time {
            pauses.insert(id.clone(), now + AGAIN);
        }
        is_time
    }

    fn restore_pauses(&self) -> MutexGuard<'_, HashMap<SubscriptionId, Instant>> {
        self.restore_pauses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether its lanes are restored.
    async fn restore_one(&self, lease: Lease, id: &SubscriptionId) -> Result<bool, StoreError> {
        for _ in 0..TRIES {
            let (now_ms, _) = self.clock.time(&self.store).await?;
            let today = Day::of_ms(now_ms);
            let Some(open) = self.store.open_deliveries_of(id, today).await? else {
                let again = Instant::now() + AGAIN_IN_VAIN;
                self.restore_pauses().insert(id.clone(), again);
                log_unrestored(id, "its open deliveries are too far back in its list");
                return Ok(false);
            };
            let call = RestoreLanes {
                fencing_token: lease,
                today,
                subscription_id: id,
                queued: open.queued,
                deliveries: &open.ids,
            };
            match self.store.restore_lanes(&call).await? {
                Some(RestoreLanesReply::Moved) => sleep(PAUSE).await,
                Some(RestoreLanesReply::Restored { count, damaged }) => {
                    if !damaged.is_empty() {
                        log_damage(lease.partition, &damaged);
                    } else if count > 0 {
                        info!(
                            webhook.id = id.as_str(),
                            "{count} deliveries of webhook `{id}` are in its lanes again",
                            id = id.as_str()
                        );
                    }
                    return Ok(damaged.is_empty());
                }
                None => {
                    self.leases.lost(lease);
                    return Ok(false);
                }
            }
        }
        log_unrestored(id, "too much was queued meanwhile");
        Ok(false)
    }
}

fn log_unrestored(id: &SubscriptionId, why: &str) {
    error!(
        webhook.id = id.as_str(),
        error = why,
        "the lanes of webhook `{id}` cannot be restored now: {why}",
        id = id.as_str()
    );
}
