//! Restores lanes from the index of deliveries, where one was deleted because it was damaged.

use std::sync::{Arc, PoisonError};
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

/// The pause until it is begun again for a subscription: its window says so for as long as it has to be.
const AGAIN: Duration = Duration::from_secs(4);

impl Inner {
    /// Restores the lanes and counts of subscriptions.
    pub async fn restore(self: Arc<Self>, lease: Lease, subscriptions: Vec<SubscriptionId>) {
        for id in subscriptions {
            if !self.is_time_to_restore(&id) {
                continue;
            }
            if let Err(failure) = self.restore_one(lease, &id).await {
                log_unrestored(&id, &failure.to_string());
            }
        }
        self.look_again(lease.partition, Duration::ZERO);
        self.changed.look();
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
        let mut restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        restored.retain(|_, at| at.elapsed() < AGAIN);
        let is_time = !restored.contains_key(id);
        if is_time {
            restored.insert(id.clone(), Instant::now());
        }
        is_time
    }

    async fn restore_one(&self, lease: Lease, id: &SubscriptionId) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let (now_ms, _) = self.clock.time(&self.store).await?;
            let today = Day::of_ms(now_ms);
            let Some(open) = self.store.open_deliveries_of(id, today).await? else {
                log_unrestored(id, "its open deliveries are too far back in its list");
                return Ok(());
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
                    return Ok(());
                }
                None => {
                    self.leases.lost(lease);
                    return Ok(());
                }
            }
        }
        log_unrestored(id, "too much was queued meanwhile");
        Ok(())
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
