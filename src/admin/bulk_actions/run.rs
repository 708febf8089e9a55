//! Runs claimed bulk actions: one script changes a row and stores its outcome; at the end another stores the response and
//! the audit entry.
//!
//! The claim holds all that is needed, and rows with an outcome are not changed again. So any process that holds the lease
//! of a claim can resume it: the request that made it, its retry, or a dispatcher. Two processes at once do no row twice.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use crate::admin::bulk_actions::rows::{Batch, batches};
use crate::domain::audit::entry::add;
use crate::domain::bulk::{BulkAction, BulkResult, Outcome, Row, WebhookAction};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::tenant::SYSTEM;
use crate::store::admin::bulk::{BulkClaim, BulkMode, BulkResponse};
use crate::store::{Store, StoreError};

/// How long a request works on the action that it began.
pub const REQUEST_PART: Duration = Duration::from_secs(5);

/// After how long without a renewal other processes resume an action.
pub const LEASE: Duration = Duration::from_secs(2);

/// Scripts that run at the same time.
const AT_ONCE: usize = 4;

/// The state of a bulk action after a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkProgress {
    /// All rows have an outcome; the response, of this run or an earlier one.
    Finished(BulkResponse),
    /// The time was over; another process resumes it.
    Paused,
    /// It finished so long ago that its response has expired.
    Forgotten,
}

/// Runs a bulk action under its lease.
pub struct Runner {
    store: Store,
    claim: Arc<BulkClaim>,
    at_once: usize,
    until: Instant,
    renewed: Instant,
    left: VecDeque<Batch>,
    /// Tenants whose closes follow, and whether this action began each.
    closes: VecDeque<(TenantId, bool)>,
    outcomes: HashMap<String, Outcome>,
}

impl Runner {
    /// Starts at the first row; scripts skip rows that have an outcome.
    pub fn new(store: Store, claim: BulkClaim) -> Self {
        Self {
            store,
            left: batches(&claim),
            claim: Arc::new(claim),
            at_once: AT_ONCE,
            until: Instant::now() + REQUEST_PART,
            renewed: Instant::now(),
            closes: VecDeque::new(),
            outcomes: HashMap::new(),
        }
    }

    /// Sets how many scripts run at the same time.
    pub fn at_once(self, scripts: usize) -> Self {
        Self {
            at_once: scripts.max(1),
            ..self
        }
    }

    /// Takes steps until the action is done, for about `time` at most. Then the rest is left to another process, and closes
    /// of tenants continue without the action.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable, or the end cannot be stored; another process resumes the action.
    pub async fn run(&mut self, time: Duration) -> Result<BulkProgress, StoreError> {
        self.until = Instant::now() + time;
        loop {
            if Instant::now() >= self.until && !self.left.is_empty() {
                let (place, time) = (&self.claim.place, Duration::ZERO);
                self.store.claim_bulk(place, BulkMode::Renew, time).await?;
                return Ok(BulkProgress::Paused);
            }
            self.renew().await?;
            if let Some(progress) = self.step().await? {
                return Ok(progress);
            }
        }
    }

    /// Takes one step, which is some scripts at a time; `None` when more is to do.
    ///
    /// # Errors
    /// As for [`Runner::run`].
    pub async fn step(&mut self) -> Result<Option<BulkProgress>, StoreError> {
        let mut next = self.left.len().min(self.at_once);
        let mut batches: Vec<Batch> = self.left.drain(..next).collect();
        if batches.is_empty() {
            next = self.closes.len().min(self.at_once);
            let (closes, until) = (self.closes.drain(..next), self.until);
            batches.extend(closes.map(|(tenant, fresh)| Batch::close(tenant, fresh, until)));
        }
        if batches.is_empty() {
            return self.finish().await.map(Some);
        }
        self.rows(batches).await?;
        Ok(None)
    }

    /// Renews the lease for a step or two; closes take steps of their own until the time is over.
    async fn renew(&mut self) -> Result<(), StoreError> {
        let closing = self.left.is_empty() && !self.closes.is_empty();
        if self.renewed.elapsed() > LEASE / 4 || closing {
            let left = self.until.saturating_duration_since(Instant::now());
            let time = if closing { LEASE + left } else { LEASE };
            let place = &self.claim.place;
            self.store.claim_bulk(place, BulkMode::Renew, time).await?;
            self.renewed = Instant::now();
        }
        Ok(())
    }

    /// Runs some batches at the same time.
    async fn rows(&mut self, batches: Vec<Batch>) -> Result<(), StoreError> {
        let mut sent = JoinSet::new();
        for batch in batches {
            // In tasks of their own, which the request deadline does not apply to.
            sent.spawn(batch.run(self.store.clone(), Arc::clone(&self.claim)));
        }
        while let Some(done) = sent.join_next().await {
            for (id, outcome) in done.expect("a batch does not panic and is not aborted")? {
                if let (Outcome::Closing { fresh }, Some(tenant)) = (&outcome, TenantId::parse(&id))
                {
                    self.closes.push_back((tenant, *fresh));
                }
                self.outcomes.insert(id, outcome);
            }
        }
        Ok(())
    }

    async fn finish(&self) -> Result<BulkProgress, StoreError> {
        self.follow_up().await?;
        let bulk = &self.claim.bulk;
        let result = BulkResult::of(bulk, |id| self.outcomes.get(id));
        let body = serde_json::to_string(&result).unwrap_or_default();
        let response = BulkResponse {
            body,
            in_progress: !result.in_progress.is_empty(),
        };
        let audit = audit_entry(&self.claim, &result);
        let stored = self.store.finish_bulk(&self.claim, &response, &audit);
        let stored = stored.await?;
        Ok(stored.map_or(BulkProgress::Forgotten, BulkProgress::Finished))
    }

    /// Changes what is outside the partition of the rows: removes deleted subscriptions from the directory, and copies the
    /// thresholds of the operator's subscriptions to every partition.
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
        let of_operator = |row: &&Row| row.place == SYSTEM;
        if changed.iter().any(of_operator)
            && let Err(failure) = self.copy_thresholds().await
        {
            warn!(
                error = %failure,
                "the thresholds of the operator's webhooks were not copied to every partition; a dispatcher copies the rest: {failure}"
            );
        }
        Ok(())
    }

    async fn copy_thresholds(&self) -> Result<(), StoreError> {
        if let Some(watched) = self.store.watched().await? {
            let partitions: Vec<_> = Partition::all().collect();
            let behind = self.store.behind(&partitions, watched.version).await?;
            self.store.copy_thresholds(&behind, &watched).await?;
        }
        Ok(())
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The audit entry, without its duration.
fn audit_entry(claim: &BulkClaim, result: &BulkResult) -> Vec<(&'static str, String)> {
    let bulk = &claim.bulk;
    let mut entry = vec![
        ("operation", bulk.action.operation().to_owned()),
        ("resource_type", bulk.action.resource().to_owned()),
        ("resource_id", "bulk-action".to_owned()),
        ("status", "200".to_owned()),
    ];
    for name in ["source_ip", "request_id", "trace_id"] {
        add(&mut entry, name, bulk.cause_value(name));
    }
    add(&mut entry, "metadata.actor", bulk.cause_value("actor_name"));
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
    let in_progress = &result.in_progress;
    let in_progress = (!in_progress.is_empty()).then(|| json(in_progress));
    let name = "metadata_json.cascade_in_progress_ids";
    add(&mut entry, name, in_progress);
    entry
}
