//! The rows of a bulk action in batches of one script each.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::error;

use crate::admin::tenants::closing::{CloseProgress, Closer, TAKE_OVER};
use crate::domain::bulk::{BulkAction, BulkFunding, Outcome, Row, TenantAction, WebhookAction};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::webhook::{Owner, Subscription, SubscriptionId, check_selectors};
use crate::store::admin::bulk::BulkClaim;
use crate::store::admin::bulk_rows::{BATCH_ROWS, Judged, JudgedWebhook};
use crate::store::{Store, StoreError};

/// Rows of an older action are not changed any more, because the outcomes of the others are about to expire.
const GIVEN_UP_MS: i64 = 24 * 3_600_000;

/// How often a subscription is checked again because it changed meanwhile.
const CHECKS_MAX: usize = 8;

/// Rows of one partition, which one script changes.
#[derive(Debug)]
pub(crate) struct Batch {
    partition: Partition,
    ids: Vec<String>,
    work: Work,
}

/// What a batch changes.
#[derive(Debug)]
enum Work {
    Budgets(BulkFunding, Vec<Row>),
    Tenant(TenantAction, TenantId),
    Webhooks(WebhookAction, Owner, Vec<SubscriptionId>),
    /// The rest of a close; whether this action began it, and how long the batch may work on it.
    Close(TenantId, bool, Instant),
}

/// Rows and their outcomes.
pub(crate) type RowOutcomes = Vec<(String, Outcome)>;

/// Splits the rows of an action into batches.
pub(crate) fn batches(claim: &BulkClaim) -> VecDeque<Batch> {
    let rows = &claim.bulk.rows;
    match &claim.bulk.action {
        BulkAction::Budgets(funding) => {
            let batch = |rows: &[Row]| Batch {
                partition: claim.place.partition,
                ids: rows.iter().map(|row| row.id.clone()).collect(),
                work: Work::Budgets(funding.clone(), rows.to_vec()),
            };
            rows.chunks(BATCH_ROWS).map(batch).collect()
        }
        BulkAction::Tenants(action) => {
            let tenants = rows.iter().filter_map(|row| TenantId::parse(&row.id));
            let batch = |tenant: TenantId| Batch {
                partition: tenant.partition(),
                ids: vec![tenant.to_string()],
                work: Work::Tenant(*action, tenant),
            };
            tenants.map(batch).collect()
        }
        BulkAction::Webhooks(action) => {
            let mut owners: Vec<(Owner, Vec<SubscriptionId>)> = Vec::new();
            for row in rows {
                let named = Owner::parse(&row.place).zip(SubscriptionId::parse(&row.id));
                let Some((owner, id)) = named else { continue };
                match owners.iter_mut().find(|(known, _)| *known == owner) {
                    Some((_, ids)) => ids.push(id),
                    None => owners.push((owner, vec![id])),
                }
            }
            let mut batches = VecDeque::new();
            for (owner, ids) in owners {
                let batch = |ids: &[SubscriptionId]| Batch {
                    partition: owner.partition(),
                    ids: ids.iter().map(SubscriptionId::to_string).collect(),
                    work: Work::Webhooks(*action, owner.clone(), ids.to_vec()),
                };
                batches.extend(ids.chunks(BATCH_ROWS).map(batch));
            }
            batches
        }
    }
}

impl Batch {
    /// The row of a tenant whose close this action began, if it is `fresh`, or found.
    pub(crate) fn close(tenant: TenantId, fresh: bool, until: Instant) -> Self {
        Self {
            partition: tenant.partition(),
            ids: vec![tenant.to_string()],
            work: Work::Close(tenant, fresh, until),
        }
    }

    /// Changes the rows. When the script fails, which changes nothing, the rows fail.
    pub(crate) async fn run(
        self,
        store: Store,
        claim: Arc<BulkClaim>,
    ) -> Result<RowOutcomes, StoreError> {
        use StoreError::{ErrorReply, Reply, Script};
        let failure = match self.attempt(&store, &claim).await {
            Err(failure @ (Script { .. } | Reply { .. } | ErrorReply { .. })) => failure,
            outcome => return outcome,
        };
        let (operation, rows) = (claim.bulk.action.operation(), self.ids.len());
        error!(error = %failure, "{operation}: {rows} rows could not be changed: {failure}");
        let why = Outcome::failed("INTERNAL_ERROR", "An internal error occurred");
        keep_outcome(&store, &claim, self.partition, &self.ids, &why).await
    }

    async fn attempt(&self, store: &Store, claim: &BulkClaim) -> Result<RowOutcomes, StoreError> {
        let outcomes = match &self.work {
            Work::Close(tenant, fresh, until) => {
                let time = until.saturating_duration_since(Instant::now());
                let outcome = close_tenant(store, tenant, *fresh, time).await;
                return keep_outcome(store, claim, self.partition, &self.ids, &outcome).await;
            }
            _ if claim.age_ms > GIVEN_UP_MS => {
                let why = Outcome::failed("INTERNAL_ERROR", "The row was not done in time");
                return keep_outcome(store, claim, self.partition, &self.ids, &why).await;
            }
            Work::Budgets(funding, rows) => store.fund_rows(claim, funding, rows).await?,
            Work::Tenant(action, tenant) => {
                store.tenant_row(claim, *action, tenant, TAKE_OVER).await?
            }
            Work::Webhooks(action, owner, ids) => {
                return webhooks(store, claim, *action, owner, ids).await;
            }
        };
        Ok(self.ids.iter().cloned().zip(outcomes).collect())
    }
}

/// Stores the same outcome for all these rows.
async fn keep_outcome(
    store: &Store,
    claim: &BulkClaim,
    partition: Partition,
    ids: &[String],
    outcome: &Outcome,
) -> Result<RowOutcomes, StoreError> {
    let rows: Vec<_> = ids
        .iter()
        .map(|id| (id.as_str(), outcome.clone()))
        .collect();
    let outcomes = store.keep_outcomes(claim, partition, &rows).await?;
    Ok(ids.iter().cloned().zip(outcomes).collect())
}

/// Changes subscriptions of one owner. Whether one may be resumed is checked when it is read, and it is changed only if it
/// is unchanged since.
async fn webhooks(
    store: &Store,
    claim: &BulkClaim,
    action: WebhookAction,
    owner: &Owner,
    ids: &[SubscriptionId],
) -> Result<RowOutcomes, StoreError> {
    let (mut done, mut left) = (RowOutcomes::new(), ids.to_vec());
    for _ in 0..CHECKS_MAX {
        let judged = match action {
            WebhookAction::Resume => judge(store, &left).await?,
            WebhookAction::Pause | WebhookAction::Delete => HashMap::new(),
        };
        let row = |id: SubscriptionId| JudgedWebhook {
            judged: judged.get(id.as_str()).copied(),
            id,
        };
        let rows: Vec<_> = left.into_iter().map(row).collect();
        let outcomes = store.webhook_rows(claim, action, owner, &rows).await?;
        left = Vec::new();
        for (row, outcome) in rows.into_iter().zip(outcomes) {
            match outcome {
                Some(outcome) => done.push((row.id.to_string(), outcome)),
                None => left.push(row.id),
            }
        }
        if left.is_empty() {
            return Ok(done);
        }
    }
    let why = "The webhook was changed by other requests at each attempt";
    let why = Outcome::failed("INTERNAL_ERROR", why);
    let ids: Vec<_> = left.iter().map(SubscriptionId::to_string).collect();
    let failed = keep_outcome(store, claim, owner.partition(), &ids, &why).await?;
    done.extend(failed);
    Ok(done)
}

async fn judge(
    store: &Store,
    ids: &[SubscriptionId],
) -> Result<HashMap<String, Judged>, StoreError> {
    let mut judged = HashMap::new();
    for record in store.webhook_records(ids).await?.into_iter().flatten() {
        let is_allowed = |found: Subscription| {
            check_selectors(&found.owner, &found.event_types, &found.event_categories).is_ok()
        };
        // A damaged subscription is not resumed.
        let allowed = Subscription::from_record(&record).is_ok_and(is_allowed);
        let id = record.get("subscription_id");
        if let Some((id, version)) = id.zip(record.integer("version").ok()) {
            judged.insert(id.to_owned(), Judged { version, allowed });
        }
    }
    Ok(judged)
}

/// Resumes the close of a tenant, whose status is CLOSED in any case, and returns the outcome of its row.
async fn close_tenant(store: &Store, tenant: &TenantId, fresh: bool, time: Duration) -> Outcome {
    let mut closer = Closer::new(store, tenant, None);
    let progress = closer.run(time).await;
    let already = || Outcome::Skipped("ALREADY_IN_TARGET_STATE".to_owned());
    match progress {
        Ok(CloseProgress::Closed) if fresh || closer.ended_anything() => Outcome::Succeeded,
        Ok(CloseProgress::Closed) => already(),
        Ok(CloseProgress::Incomplete { failed, .. }) => Outcome::failed(
            "INTERNAL_ERROR",
            &format!("The tenant is closed, but not: {}", failed.join(", ")),
        ),
        Ok(CloseProgress::Paused | CloseProgress::Fenced) | Err(_) => match fresh {
            true => Outcome::SucceededInProgress,
            false => Outcome::Skipped("CASCADE_IN_PROGRESS".to_owned()),
        },
    }
}
