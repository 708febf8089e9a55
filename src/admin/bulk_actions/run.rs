//! Bulk actions, once they are claimed: each row is changed, and what became of it kept, by one script; in the end the answer and
//! the audit entry are stored by another.
//!
//! The claim holds all that is needed, and what has an outcome is left alone. So whoever has the lease of a claim, the request
//! that made it, the same request sent again or a dispatcher, goes on where another stopped, and two at once do no
//! row twice.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use crate::admin::bulk_actions::rows::{Batch, batches};
use crate::domain::bulk::{BulkAction, BulkResult, Outcome, Row, WebhookAction};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::webhook::Owner;
use crate::store::admin::bulk::{BulkAnswer, BulkClaim};
use crate::store::{Store, StoreError};

/// For how long a request goes on with the action that it began.
pub const REQUEST_PART: Duration = Duration::from_secs(5);

/// After so long without a sign of life of whoever is at it, others go on.
pub const LEASE: Duration = Duration::from_secs(2);

/// Scripts on their way at the same time.
const AT_ONCE: usize = 4;

/// Nobody goes on with an action that is older: what is kept of its rows is about to be forgotten.
const GIVEN_UP_MS: i64 = 24 * 3_600_000;

/// How a turn at a bulk action ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// All is done; the answer, by this turn or before.
    Finished(BulkAnswer),
    /// The time was over; somebody goes on.
    Paused,
    /// It was finished so long ago that its answer is forgotten.
    Forgotten,
}

/// Whoever has the lease of a bulk action.
pub struct Runner {
    store: Store,
    claim: Arc<BulkClaim>,
    at_once: usize,
    until: Instant,
    renewed: Instant,
    left: VecDeque<Batch>,
    closes: VecDeque<(TenantId, bool)>,
    outcomes: HashMap<String, Outcome>,
}

impl Runner {
    /// From the first row on: what is done already is found out on the way.
    pub fn new(store: Store, claim: BulkClaim) -> Self {
        let late = claim.age_ms > GIVEN_UP_MS;
        let mut left = batches(&claim.bulk.action, &claim.bulk.rows);
        if late {
            left = left.into_iter().map(|batch| batch.late(&claim)).collect();
        }
        Self {
            store,
            claim: Arc::new(claim),
            at_once: AT_ONCE,
            until: Instant::now() + REQUEST_PART,
            renewed: Instant::now(),
            left,
            closes: VecDeque::new(),
            outcomes: HashMap::new(),
        }
    }

    /// With so many scripts on their way at the same time.
    pub fn at_once(self, scripts: usize) -> Self {
        Self {
            at_once: scripts.max(1),
            ..self
        }
    }

    /// Takes steps until the action is done, at most for about `time`. Then rows wait for others, and closes of tenants go on
    /// without the action.
    ///
    /// # Errors
    /// [`StoreError`] when Redis cannot be asked, or the end cannot be written: others go on.
    pub async fn run(&mut self, time: Duration) -> Result<Turn, StoreError> {
        self.until = Instant::now() + time;
        loop {
            if self.is_over() && !self.left.is_empty() {
                self.store
                    .renew_bulk(&self.claim.place, Duration::ZERO)
                    .await?;
                return Ok(Turn::Paused);
            }
            self.renew().await?;
            if let Some(turn) = self.step().await? {
                return Ok(turn);
            }
        }
    }

    /// Takes one step: some scripts at a time. `None`: there is more to do.
    ///
    /// # Errors
    /// As for [`Runner::run`].
    pub async fn step(&mut self) -> Result<Option<Turn>, StoreError> {
        if !self.left.is_empty() {
            let next = self.left.len().min(self.at_once);
            let batches: Vec<Batch> = self.left.drain(..next).collect();
            self.rows(batches).await?;
            return Ok(None);
        }
        if !self.closes.is_empty() {
            let next = self.closes.len().min(self.at_once);
            let closes: Vec<_> = self.closes.drain(..next).collect();
            self.close(closes).await?;
            return Ok(None);
        }
        self.finish().await.map(Some)
    }

    /// Keeps the lease for a step or two; closes take steps of their own for as long as there is time.
    async fn renew(&mut self) -> Result<(), StoreError> {
        let closing = self.left.is_empty() && !self.closes.is_empty();
        if self.renewed.elapsed() > LEASE / 4 || closing {
            let time = match closing {
                true => self.until.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            self.store
                .renew_bulk(&self.claim.place, LEASE + time)
                .await?;
            self.renewed = Instant::now();
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    async fn rows(&mut self, batches: Vec<Batch>) -> Result<(), StoreError> {
        let mut sent = JoinSet::new();
        for batch in batches {
            // Tasks of their own, so that a request's time in Redis does not end in the middle of a bulk action.
            sent.spawn(batch.run(self.store.clone(), Arc::clone(&self.claim)));
        }
        while let Some(done) = sent.join_next().await {
            let done = done.expect("a batch does not panic and is not aborted")?;
            for (id, outcome) in done {
                if let (Outcome::Closing { fresh }, Some(tenant)) = (&outcome, TenantId::parse(&id))
                {
                    self.closes.push_back((tenant, *fresh));
                }
                self.outcomes.insert(id, outcome);
            }
        }
        Ok(())
    }

    async fn close(&mut self, closes: Vec<(TenantId, bool)>) -> Result<(), StoreError> {
        let mut sent = JoinSet::new();
        let time = self.until.saturating_duration_since(Instant::now());
        for (tenant, fresh) in closes {
            let (store, claim) = (self.store.clone(), Arc::clone(&self.claim));
            sent.spawn(async move {
                let outcome =
                    crate::admin::bulk_actions::rows::close(&store, &tenant, fresh, time).await;
                let settled = [(tenant.as_str(), outcome)];
                let kept = store.settle_rows(&claim, tenant.partition(), &settled);
                kept.await.map(|kept| (tenant.to_string(), kept))
            });
        }
        while let Some(done) = sent.join_next().await {
            let (id, kept) = done.expect("a close does not panic and is not aborted")?;
            for outcome in kept {
                self.outcomes.insert(id.clone(), outcome);
            }
        }
        Ok(())
    }

    async fn finish(&self) -> Result<Turn, StoreError> {
        self.follow_up().await?;
        let bulk = &self.claim.bulk;
        let result = BulkResult::of(bulk, |id| self.outcomes.get(id));
        let body = serde_json::to_string(&result).unwrap_or_default();
        let given = BulkAnswer {
            body,
            in_progress: !result.in_progress.is_empty(),
        };
        let audit = audit_entry(&self.claim, &result);
        let stored = self.store.finish_bulk(&self.claim, &given, &audit).await?;
        Ok(stored.map_or(Turn::Forgotten, Turn::Finished))
    }

    /// What follows from rows outside their partition: the directory forgets subscriptions that are gone, and every partition
    /// learns what the operator's subscriptions watch now.
    async fn follow_up(&self) -> Result<(), StoreError> {
        let bulk = &self.claim.bulk;
        let BulkAction::Webhooks(action) = bulk.action else {
            return Ok(());
        };
        let changed = |row: &&Row| self.outcomes.get(&row.id) == Some(&Outcome::Succeeded);
        let changed: Vec<&Row> = bulk.rows.iter().filter(changed).collect();
        if action == WebhookAction::Delete {
            let gone: Vec<&str> = changed.iter().map(|row| row.id.as_str()).collect();
            self.store.leave_webhook_directory(&gone).await?;
        }
        let of_operator = |row: &&Row| row.place == Owner::SYSTEM;
        if changed.iter().any(of_operator)
            && let Err(failure) = self.spread().await
        {
            warn!(
                error = %failure,
                "the thresholds of the operator's webhooks did not reach every partition yet; a dispatcher brings them: {failure}"
            );
        }
        Ok(())
    }

    async fn spread(&self) -> Result<(), StoreError> {
        let Some(watched) = self.store.watched().await? else {
            return Ok(());
        };
        let partitions: Vec<_> = Partition::all().collect();
        let behind = self.store.behind(&partitions, watched.version).await?;
        self.store.copy_thresholds(&behind, &watched).await?;
        Ok(())
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The audit entry, all but how long it took.
fn audit_entry(claim: &BulkClaim, result: &BulkResult) -> Vec<(&'static str, String)> {
    let bulk = &claim.bulk;
    let mut entry = vec![
        ("operation", bulk.action.operation().to_owned()),
        ("resource_type", bulk.action.resource().to_owned()),
        ("resource_id", "bulk-action".to_owned()),
        ("status", "200".to_owned()),
    ];
    for name in ["source_ip", "request_id", "trace_id"] {
        entry.extend(bulk.cause_value(name).map(|value| (name, value.to_owned())));
    }
    let ids: Vec<&str> = result.succeeded.iter().map(|row| row.id.as_str()).collect();
    entry.extend([
        ("metadata.action", bulk.action.as_str().to_owned()),
        ("metadata.total_matched", bulk.rows.len().to_string()),
        ("metadata.succeeded", result.succeeded.len().to_string()),
        ("metadata.failed", result.failed.len().to_string()),
        ("metadata.skipped", result.skipped.len().to_string()),
        ("metadata_json.succeeded_ids", json(&ids)),
        ("metadata_json.failed_rows", json(&result.failed)),
        ("metadata_json.skipped_rows", json(&result.skipped)),
        ("metadata_json.filter", bulk.filter.clone()),
        ("metadata.idempotency_key", bulk.idempotency_key.clone()),
        ("metadata.actor_type", "admin_on_behalf_of".to_owned()),
    ]);
    if !result.in_progress.is_empty() {
        entry.push((
            "metadata_json.cascade_in_progress_ids",
            json(&result.in_progress),
        ));
    }
    entry
}
