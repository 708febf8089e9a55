//! Bulk actions: find the rows that match, check their number, claim the action and run it.

pub(crate) mod rows;
pub mod run;

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::budgets::list::BudgetWalk;
use super::tenants::list::TenantWalk;
use super::webhooks::WebhookFilter;
use super::webhooks::list::WebhookWalk;
use super::{Admin, BudgetFilter, Request, TenantFilter, refuse};
use crate::admin::bulk_actions::run::{BulkProgress, LEASE, REQUEST_PART, Runner};
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::bulk::{
    Bulk, BulkAction, BulkFunding, ROWS_MAX, Row, TenantAction, WebhookAction,
};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::refusal::{AccessRefusal, BulkRefusal, TenantRefusal};
use crate::domain::tenant::NO_TENANT;
use crate::domain::webhook::Owner;
use crate::listing::{Walk, each};
use crate::store::StoreError;
use crate::store::admin::bulk::{BulkMode, BulkPlace, BulkResponse, BulkState};
use crate::store::target::about;

/// How long a request waits for another under the same idempotency key.
const WAIT: Duration = Duration::from_secs(5);

/// How often it reads the state meanwhile.
const POLL: Duration = Duration::from_millis(25);

/// Arguments that all bulk actions share.
#[derive(Debug)]
pub struct BulkRequest<'a> {
    /// Cause, idempotency key and payload; the key is required.
    pub request: Request<'a>,
    /// How many rows are expected to match.
    pub expected_count: Option<i64>,
    /// The filter as JSON, for the audit entry.
    pub filter: String,
    /// The error code for a row that does not exist any more.
    pub gone_row: &'static str,
}

/// The rows that match: the first of them, and how many there are.
#[derive(Debug, Default)]
struct Matches {
    rows: Vec<Row>,
    total: usize,
}

impl Matches {
    /// All rows of a walk.
    async fn of<W: Walk<Error = StoreError>>(
        mut walk: W,
        row: impl Fn(W::Row) -> Row,
    ) -> Result<Self, StoreError> {
        let mut matches = Self::default();
        let push = |found| {
            matches.total += 1;
            if matches.total <= ROWS_MAX {
                matches.rows.push(row(found));
            }
            Ok(())
        };
        each(&mut walk, push).await?;
        Ok(matches)
    }
}

/// A bulk action, and whose audit log records it.
struct BulkPlan {
    action: BulkAction,
    /// The one owner of the changed rows, whose partition has the claim; `None`: rows of several.
    owner: Option<Owner>,
    audit_tenant: String,
}

impl Admin {
    /// Suspends, reactivates or closes tenants.
    ///
    /// # Errors
    /// Refusals, in this order: another request under the same idempotency key; more than 500 matches; another number than
    /// expected; the action is still in progress.
    pub async fn bulk_tenants(
        &self,
        filter: &TenantFilter,
        action: TenantAction,
        bulk_request: &BulkRequest<'_>,
    ) -> Result<BulkResponse, StoreError> {
        let plan = BulkPlan {
            action: BulkAction::Tenants(action),
            owner: None,
            audit_tenant: NO_TENANT.to_owned(),
        };
        let walk = TenantWalk::new(&self.store, filter);
        let matches = Matches::of(walk, |tenant| Row::tenant(&tenant.tenant_id));
        self.bulk(plan, bulk_request, matches).await
    }

    /// Pauses, resumes or deletes webhook subscriptions.
    ///
    /// # Errors
    /// As for [`Admin::bulk_tenants`].
    pub async fn bulk_webhooks(
        &self,
        filter: &WebhookFilter,
        action: WebhookAction,
        bulk_request: &BulkRequest<'_>,
    ) -> Result<BulkResponse, StoreError> {
        let owner = filter.owner.owner();
        let is_known = match owner.and_then(Owner::tenant) {
            Some(tenant) => self.store.get_tenant(tenant).await?.is_some(),
            None => owner.is_some(),
        };
        let named = owner.map_or(NO_TENANT, Owner::as_str);
        let plan = BulkPlan {
            action: BulkAction::Webhooks(action),
            owner: owner.cloned(),
            audit_tenant: if is_known { named } else { NO_TENANT }.to_owned(),
        };
        let matches = Matches::of(WebhookWalk::new(&self.store, filter), |found| Row {
            id: found.subscription_id.to_string(),
            place: found.owner.to_string(),
        });
        self.bulk(plan, bulk_request, matches).await
    }

    /// Funds ledgers of one tenant.
    ///
    /// # Errors
    /// As for [`Admin::bulk_tenants`]; after the idempotency key, that there is no such tenant.
    pub async fn bulk_budgets(
        &self,
        filter: &BudgetFilter,
        funding: &BulkFunding,
        bulk_request: &BulkRequest<'_>,
    ) -> Result<BulkResponse, StoreError> {
        let tenant = &funding.tenant;
        let plan = BulkPlan {
            action: BulkAction::Budgets(funding.clone()),
            owner: Some(Owner::Tenant(tenant.clone())),
            audit_tenant: tenant.to_string(),
        };
        let matches = self.matched_budgets(tenant, filter);
        self.bulk(plan, bulk_request, matches).await
    }

    /// Checks the refusals in their order, then runs the action.
    async fn bulk(
        &self,
        plan: BulkPlan,
        bulk_request: &BulkRequest<'_>,
        matches: impl Future<Output = Result<Matches, StoreError>>,
    ) -> Result<BulkResponse, StoreError> {
        let owner = plan.owner.as_ref();
        let done = async {
            let request = &bulk_request.request;
            let digest = request.idempotency(plan.action.operation());
            let place = BulkPlace {
                partition: owner.map_or(Partition::FIRST, Owner::partition),
                tenant: owner.map_or(NO_TENANT, Owner::as_str).to_owned(),
                digest: digest.unwrap_or_default(),
            };
            let payload_hash = request.payload_hash.as_str();
            let until = Instant::now() + WAIT;
            if let Some(response) = self.find_claimed(&place, payload_hash, until).await? {
                return Ok(response);
            }
            let Matches { rows, total } = matches.await?;
            if total > ROWS_MAX {
                return refuse(BulkRefusal::TooManyMatched(total));
            }
            let expected = bulk_request.expected_count;
            if expected.is_some_and(|count| count != total as i64) {
                return refuse(BulkRefusal::CountMismatch(total));
            }
            let key = request.idempotency_key.map(ToString::to_string);
            let bulk = Bulk {
                action: plan.action,
                cause: request.cause.lines(),
                filter: bulk_request.filter.clone(),
                idempotency_key: key.unwrap_or_default(),
                audit_tenant: plan.audit_tenant,
                gone_row: bulk_request.gone_row.to_owned(),
                thresholds_max: self.limits.thresholds.into(),
                rows,
            };
            let mode = BulkMode::Begin(payload_hash, &bulk);
            let begun = self.store.claim_bulk(&place, mode, LEASE).await?;
            if let Some(response) = self.after(begun).await? {
                return Ok(response);
            }
            // Another request under the same key was faster.
            match self.find_claimed(&place, payload_hash, until).await? {
                Some(response) => Ok(response),
                None => refuse(BulkRefusal::InProgress),
            }
        };
        about(owner.and_then(Owner::tenant), done.await)
    }

    /// The response of an action that was claimed before, after waiting for it or resuming it; `None` where there is none.
    async fn find_claimed(
        &self,
        place: &BulkPlace,
        payload_hash: &str,
        until: Instant,
    ) -> Result<Option<BulkResponse>, StoreError> {
        loop {
            let mode = BulkMode::Look(payload_hash);
            match self.store.claim_bulk(place, mode, LEASE).await? {
                BulkState::None => return Ok(None),
                BulkState::Busy if Instant::now() < until => sleep(POLL).await,
                BulkState::Busy => return refuse(BulkRefusal::InProgress),
                found => return self.after(found).await,
            }
        }
    }

    async fn after(&self, state: BulkState) -> Result<Option<BulkResponse>, StoreError> {
        match state {
            BulkState::Mismatch => refuse(AccessRefusal::IdempotencyMismatch),
            BulkState::Done(response) => Ok(Some(response)),
            BulkState::Mine(claim) => {
                let mut runner = Runner::new(self.store.clone(), *claim);
                match runner.run(REQUEST_PART).await? {
                    BulkProgress::Finished(response) => Ok(Some(response)),
                    BulkProgress::Paused | BulkProgress::Forgotten => {
                        refuse(BulkRefusal::InProgress)
                    }
                }
            }
            BulkState::Unreadable(error) => Err(error.into()),
            BulkState::None | BulkState::Busy => Ok(None),
        }
    }

    async fn matched_budgets(
        &self,
        tenant: &TenantId,
        filter: &BudgetFilter,
    ) -> Result<Matches, StoreError> {
        if self.store.get_tenant(tenant).await?.is_none() {
            return refuse(TenantRefusal::NotFound(tenant.to_string()));
        }
        let walk = BudgetWalk::new(&self.store, filter, tenant.clone());
        let row = |ledger: BudgetLedger| Row {
            place: format!("{} {}", ledger.unit, ledger.scope),
            id: ledger.ledger_id,
        };
        Matches::of(walk, row).await
    }
}
