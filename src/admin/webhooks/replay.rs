//! Chooses events to be delivered to a subscription again, and stores them. Nothing delivers them yet.

use super::{Opened, Webhooks};
use crate::admin::audit::entry;
use crate::admin::refuse;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::event::StoredEvent;
use crate::domain::fields::object;
use crate::domain::ids::Partition;
use crate::domain::moment::Window;
use crate::domain::refusal::WebhookRefusal;
use crate::domain::webhook::{
    Crossed, Owner, ReplayId, Seen, Subscription, SubscriptionId, WebhookReplay, WebhookStatus,
    reported_on,
};
use crate::store::admin::Pairs;
use crate::store::admin::target::Target as _;
use crate::store::admin::webhook_replays::{
    BeginReplay, EndReplay, EventLog, LogEntry, QueueReplay, QueueReplayReply,
};
use crate::store::signature::Counted;
use crate::store::{Day, Lane, OperationError};

/// Events of the window that are looked at.
const SCANNED_MAX: usize = 20_000;
/// Logs of a day and tenant that are looked at.
const LOGS_MAX: usize = 20_000;
/// How long choosing the events may take; then another replay may begin.
const CLAIM_MS: i64 = 60_000;
/// After how long a replay that nobody takes is given up: a delivery as old would fail unsent.
const KEEP_MS: i64 = 24 * 3_600_000;

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
    /// Refusals: no such subscription; its owner closed; a replay of it in progress; too many events.
    pub async fn replay(
        &self,
        caller: &Caller,
        id: &str,
        replay: &WebhookReplay,
        cause: &Cause,
    ) -> Result<ReplayResponse, OperationError> {
        let id = self.parse_id(caller, id, "webhooks:write").await?;
        let opened = self.open(caller, &id, "webhooks:write").await?;
        let replayed = self.replay_opened(&opened, replay, cause).await;
        opened.target().about(replayed)
    }

    async fn replay_opened(
        &self,
        opened: &Opened,
        replay: &WebhookReplay,
        cause: &Cause,
    ) -> Result<ReplayResponse, OperationError> {
        opened.check_owner()?;
        // What is paused gets nothing, replays included.
        if opened.subscription.status != WebhookStatus::Active {
            return self.queue(opened, None, &[], cause).await;
        }
        let id = &opened.subscription.subscription_id;
        let token = format!("{:032x}", rand::random::<u128>());
        let claim = BeginReplay {
            subscription_id: id,
            token: &token,
            claim_ms: CLAIM_MS,
        };
        let target = opened.target();
        self.store.run_for(Lane::Request, &target, &claim).await?;
        let queued = async {
            let events = self.chosen(&opened.subscription, replay).await?;
            self.queue(opened, Some(&token), &events, cause).await
        };
        let queued = queued.await;
        if queued.is_err() {
            self.give_back(id, &token).await;
        }
        queued
    }

    async fn queue(
        &self,
        opened: &Opened,
        token: Option<&str>,
        event_ids: &[String],
        cause: &Cause,
    ) -> Result<ReplayResponse, OperationError> {
        let subscription = &opened.subscription;
        let replay_id = ReplayId::mint(subscription.owner.partition());
        let id = &subscription.subscription_id;
        let mut audit: Pairs = entry(cause, "replayEvents", ("webhook", id.as_str()), 202);
        audit.extend([
            ("metadata.replay_id", replay_id.to_string()),
            ("metadata.events_queued", event_ids.len().to_string()),
        ]);
        let call = QueueReplay {
            owner: &subscription.owner,
            subscription_id: id,
            token,
            replay_id: replay_id.as_str(),
            keep_ms: KEEP_MS,
            context: &cause.lines(),
            event_ids: Counted(event_ids),
            audit: &audit,
        };
        let target = opened.target();
        match self.store.run_for(Lane::Request, &target, &call).await? {
            QueueReplayReply::Queued => {
                let events = i64::try_from(event_ids.len()).unwrap_or(i64::MAX);
                Ok(ReplayResponse {
                    replay_id: replay_id.to_string(),
                    events_queued: events,
                    estimated_completion_seconds: if events == 0 {
                        0
                    } else {
                        (events / 10).max(1)
                    },
                })
            }
            // Somebody else has claimed it after ours lapsed.
            QueueReplayReply::Lost => refuse(WebhookRefusal::ReplayInProgress(id.to_string())),
        }
    }

    /// The ids of the events, in order of time and id.
    async fn chosen(
        &self,
        subscription: &Subscription,
        replay: &WebhookReplay,
    ) -> Result<Vec<String>, OperationError> {
        let Window { from_ms, to_ms } = replay.window();
        if from_ms.zip(to_ms).is_some_and(|(from, to)| from > to) {
            return Ok(Vec::new());
        }
        let (partitions, tenant) = match &subscription.owner {
            Owner::Tenant(tenant) => (vec![tenant.partition()], Some(tenant.as_str())),
            Owner::System => (Partition::all().collect(), None),
        };
        let oldest = self.store.today().plus(-self.retention_days - 1);
        let first = from_ms
            .map(Day::of_ms)
            .map_or(oldest, |day| day.max(oldest));
        let days = (Some(first), to_ms.map(Day::of_ms).map(|day| day.plus(1)));
        let logs = self.store.event_logs(&partitions, tenant, days).await?;
        if logs.len() > LOGS_MAX {
            return refuse(WebhookRefusal::TooManyInWindow(LOGS_MAX));
        }
        let entries = self
            .store
            .event_entries(&logs, (from_ms, to_ms), SCANNED_MAX);
        let entries = entries.await?;
        if entries.len() > SCANNED_MAX {
            return refuse(WebhookRefusal::TooManyInWindow(SCANNED_MAX));
        }
        let mut chosen = Vec::new();
        for found in &entries {
            chosen.extend(event_of(found, &logs, subscription, replay)?);
        }
        let events_max = usize::try_from(replay.max_events).unwrap_or(1);
        if chosen.len() > events_max {
            return refuse(WebhookRefusal::TooManyMatch(events_max));
        }
        chosen.sort();
        Ok(chosen.into_iter().map(|(_, id)| id).collect())
    }

    /// A claim that cannot be given back lapses.
    async fn give_back(&self, id: &SubscriptionId, token: &str) {
        let call = EndReplay {
            subscription_id: id,
            token,
        };
        let _ = self.store.outcome(&call).await;
    }
}

/// Time and id of an event, if it is to be delivered once more.
fn event_of(
    found: &LogEntry,
    logs: &[EventLog],
    subscription: &Subscription,
    replay: &WebhookReplay,
) -> Result<Option<(i64, String)>, OperationError> {
    let (log, facts) = (&logs[found.log], &found.facts);
    let (event_type, at_ms) = (facts.text("type")?, facts.integer("at_ms")?);
    let reported_on = reported_on(event_type, facts);
    let seen = Seen {
        event_type,
        tenant: &log.tenant,
        scope: facts.get("scope"),
        crossed: Crossed::of(event_type, facts)?,
        reported_on: reported_on.as_deref(),
    };
    let is_requested = replay
        .event_types
        .as_ref()
        .is_none_or(|types| types.iter().any(|name| name.as_str() == event_type));
    if !is_requested || !replay.window().contains(at_ms) || !subscription.selects(&seen) {
        return Ok(None);
    }
    let event = StoredEvent {
        partition: log.partition,
        tenant: &log.tenant,
        entry: &found.entry.to_string(),
        facts,
    };
    Ok(Some((at_ms, event.event_id())))
}
