//! Chooses events to be delivered to a subscription again, and keeps their deliveries for a dispatcher, which queues them.

mod selection;

use super::{LoadedSubscription, Webhooks};
use crate::admin::refuse;
use crate::domain::audit::entry::entry;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::fields::object;
use crate::domain::refusal::WebhookRefusal;
use crate::domain::webhook::{ReplayId, WebhookReplay, WebhookStatus};
use crate::store::admin::Pairs;
use crate::store::admin::webhook_replays::{BeginReplay, EndReplay, QueueReplay, QueueReplayReply};
use crate::store::signature::Counted;
use crate::store::target::Target as _;
use crate::store::{Lane, StoreError, outcome};

/// How long choosing the events may take; then another replay may begin.
const CLAIM_MS: i64 = 60_000;
/// How long a replay keeps others from beginning: a delivery that is older fails unsent.
const LOCK_MS: i64 = 24 * 3_600_000;
/// After how long a replay that no dispatcher has ended is given up.
const KEEP_MS: i64 = 48 * 3_600_000;

object! {
    /// A replay that was queued.
    #[derive(Debug)]
    pub struct ReplayResponse: Serialize + Open {
        /// Id of the replay.
        pub replay_id: String { required: false },
        /// How many events will be delivered again.
        pub events_queued: i64 { required: false },
        /// How long that may take, in seconds.
        pub estimated_completion_seconds: i64 { required: false },
    }
}

impl Webhooks {
    /// Queues the events of a window that the subscription would get now, all or none. Not repeatable by a key.
    ///
    /// # Errors
    /// Refusals: of the key; no such subscription; its owner closed or suspended; replayed by a tenant too often; a replay of it in
    /// progress; too many events.
    pub async fn replay(
        &self,
        caller: &Caller,
        id: &str,
        replay: &WebhookReplay,
        operation: &'static str,
        cause: &Cause,
    ) -> Result<ReplayResponse, StoreError> {
        let cause = (operation, cause);
        let loaded = self.open(caller, id, "webhooks:write").await?;
        let id = &loaded.subscription.subscription_id;
        let replay_id = ReplayId::mint(loaded.subscription.owner.partition());
        let replayed = async {
            loaded.check_owner()?;
            // It examines many events, perhaps to queue none.
            if let Caller::Tenant(_) = caller {
                self.count_test(&loaded).await?;
            }
            // A paused subscription gets nothing, replays included.
            if loaded.subscription.status != WebhookStatus::Active {
                return self.queue(&loaded, &replay_id, None, &[], cause).await;
            }
            let token = format!("{:032x}", rand::random::<u128>());
            let claim = BeginReplay {
                subscription_id: id,
                token: &token,
                claim_ms: CLAIM_MS,
            };
            loaded.target().run(&self.store, &claim).await?;
            let selected = self.select_events(&loaded.subscription, replay, &replay_id);
            let queued = match selected.await {
                Ok(selected) => {
                    let queued = self.queue(&loaded, &replay_id, Some(&token), &selected, cause);
                    queued.await
                }
                Err(error) => Err(error),
            };
            if queued.is_err() {
                // A claim that cannot be given back lapses.
                let end = EndReplay {
                    subscription_id: id,
                    token: &token,
                };
                let _ = outcome(self.store.run(Lane::Request, &end).await);
            }
            queued
        };
        loaded.target().about(replayed.await)
    }

    async fn queue(
        &self,
        loaded: &LoadedSubscription,
        replay_id: &ReplayId,
        token: Option<&str>,
        deliveries: &[String],
        (operation, cause): (&'static str, &Cause),
    ) -> Result<ReplayResponse, StoreError> {
        let subscription = &loaded.subscription;
        let id = &subscription.subscription_id;
        let mut audit: Pairs = entry(cause, operation, ("webhook", id.as_str()), Some(202));
        audit.push(("metadata.replay_id", replay_id.to_string()));
        let call = QueueReplay {
            owner: &subscription.owner,
            subscription_id: id,
            token,
            replay_id: replay_id.as_str(),
            lock_ms: LOCK_MS,
            keep_ms: KEEP_MS,
            deliveries: Counted(deliveries),
            audit: &audit,
        };
        match loaded.target().run(&self.store, &call).await? {
            QueueReplayReply::Queued { count } => Ok(ReplayResponse {
                replay_id: replay_id.to_string(),
                events_queued: count,
                estimated_completion_seconds: if count == 0 { 0 } else { (count / 10).max(1) },
            }),
            // Somebody else has claimed it after ours lapsed.
            QueueReplayReply::Lost => refuse(WebhookRefusal::ReplayInProgress(id.to_string())),
        }
    }
}
