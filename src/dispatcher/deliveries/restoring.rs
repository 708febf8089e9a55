//! Restores lanes from the index of deliveries, where one was deleted because it was damaged.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::{error, info};

use super::inner::{Inner, log_damage};
use crate::domain::webhook::SubscriptionId;
use crate::store::dispatcher::restore_lanes::{RestoreLanes, RestoreLanesReply};
use crate::store::{Day, Lease, StoreError};

/// How often it is tried while deliveries are queued meanwhile, and the pause between.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

impl Inner {
    /// Restores the lanes and counts of subscriptions.
    pub async fn restore(self: Arc<Self>, lease: Lease, subscriptions: Vec<SubscriptionId>) {
        for id in subscriptions {
            if let Err(failure) = self.restore_one(lease, &id).await {
                error!(
                    webhook.id = id.as_str(), error = %failure,
                    "the lanes of webhook `{id}` cannot be restored: {failure}", id = id.as_str()
                );
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

    async fn restore_one(&self, lease: Lease, id: &SubscriptionId) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            let (now_ms, _) = self.clock.time(&self.store).await?;
            let today = Day::of_ms(now_ms);
            let open = self.store.open_deliveries_of(id, today).await?;
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
        Ok(())
    }
}
