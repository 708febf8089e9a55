//! The overview: counts that scripts keep, and recent events. It costs the same however much is stored, and a replica
//! computes it once in a few seconds at most.

mod response;

pub use response::*;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Admin;
use super::events::envelope;
use super::log_walk::{LogDays, LogEntry, read_facts};
use crate::domain::amount::Unit;
use crate::domain::budget::ledger::BudgetStatus;
use crate::domain::budget::projection::projected;
use crate::domain::event::RenderedEvent;
use crate::domain::event::types::EventType;
use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::tenant::TenantStatus;
use crate::domain::webhook::WebhookStatus;
use crate::listing::{StepRange, readable};
use crate::store::StoreError;
use crate::store::admin::budget_lists::with_sources;
use crate::store::admin::overview::{IndexReason, Totals};
use crate::store::dispatcher::view_rows::LogIndex;
use crate::store::dispatcher::views::View;

/// How long an overview is cached.
const AGE: Duration = Duration::from_secs(3);
/// Rows of each list.
const ROWS: usize = 10;
/// How far back events are looked at.
const WINDOW: Duration = Duration::from_secs(3_600);

/// The last overview and when it was computed. Requests that come meanwhile wait for the one in progress.
#[derive(Debug, Default)]
pub(super) struct LastOverview(Mutex<Option<(Instant, Arc<AdminOverviewResponse>)>>);

impl Admin {
    /// The overview, a few seconds old at most.
    ///
    /// # Errors
    /// Only of the store.
    pub async fn overview(&self) -> Result<Arc<AdminOverviewResponse>, StoreError> {
        let mut last = self.last_overview.0.lock().await;
        if let Some((made, overview)) = &*last
            && made.elapsed() < AGE
        {
            return Ok(Arc::clone(overview));
        }
        let overview = Arc::new(self.overview_now().await?);
        *last = Some((Instant::now(), Arc::clone(&overview)));
        Ok(overview)
    }

    /// The overview as of now.
    ///
    /// # Errors
    /// Only of the store.
    pub async fn overview_now(&self) -> Result<AdminOverviewResponse, StoreError> {
        let store = &self.store;
        let totals = store.totals().await?;
        let partitions = &totals.over_limit_or_in_debt;
        let indexed = async |reason, fields: Vec<&str>| {
            let found = store.indexed_ledgers(partitions, reason, ROWS, &fields);
            found.await
        };
        let over = with_sources(OverLimitScope::field_names());
        let over = indexed(IndexReason::OverLimit, over).await?;
        let debt = with_sources(DebtScope::field_names());
        let debt = indexed(IndexReason::Debt, debt).await?;
        let fields = FailingWebhookSummary::field_names();
        let failing = store
            .failing_webhooks(&totals.failing_in, ROWS, &fields)
            .await?;
        let trusted_ms = store.clock().trusted_now_ms();
        let over_limit =
            |record: &Record| OverLimitScope::from_record(projected(record, trusted_ms)?.as_ref());
        let mut over_limit_scopes = rows(&over.worst, "scope", over_limit);
        let in_debt =
            |record: &Record| DebtScope::from_record(projected(record, trusted_ms)?.as_ref());
        let mut debt_scopes = rows(&debt.worst, "scope", in_debt);
        // Ledgers that have changed since the index was read are left out. Its scores are doubles; the figures are exact.
        over_limit_scopes.retain(|ledger| ledger.is_over_limit);
        over_limit_scopes.sort_by_key(|ledger| (Reverse(ledger.debt), ledger.scope.clone()));
        debt_scopes.retain(|ledger| ledger.debt > 0);
        debt_scopes.sort_by_key(|ledger| (Reverse(ledger.debt), ledger.scope.clone()));
        let now_ms = store.clock().now_ms();
        let window = (now_ms - WINDOW.as_millis() as i64, now_ms);
        let events = store.count_events(window.0, window.1).await?;
        let mut by_category = BTreeMap::new();
        for (event_type, count) in events.by_type {
            *by_category
                .entry(event_type.category().as_str())
                .or_default() += count;
        }
        Ok(AdminOverviewResponse {
            as_of: Moment::from_ms(now_ms).ok_or_else(|| RecordError::of("as_of"))?,
            event_window_seconds: WINDOW.as_secs() as i64,
            tenant_counts: TenantCounts::of(&totals),
            budget_counts: BudgetCounts::of(&totals, over.count, debt.count),
            over_limit_scopes,
            debt_scopes,
            webhook_counts: WebhookCounts::of(&totals),
            failing_webhooks: rows(
                &failing,
                "subscription_id",
                FailingWebhookSummary::from_record,
            ),
            event_counts: EventCounts {
                total_recent: events.total,
                by_category,
            },
            recent_denials: self.latest(EventType::ReservationDenied, window).await?,
            recent_expiries: self.latest(EventType::ReservationExpired, window).await?,
            recent_denials_by_reason: store.denials_by_reason(window.0, window.1).await?,
        })
    }

    /// The latest events of a type, newest first. One that is damaged is left out.
    async fn latest(
        &self,
        event_type: EventType,
        window: (i64, i64),
    ) -> Result<Vec<RenderedEvent>, StoreError> {
        let (store, index) = (
            &self.store,
            LogIndex::Kind(Some(event_type.as_str().to_owned())),
        );
        let range = StepRange {
            descending: true,
            ..StepRange::FIRST
        };
        let mut days = LogDays::new(View::Events, index, window, range);
        let mut events = days.step(store, ROWS).await?;
        events.truncate(ROWS);
        read_facts(store, View::Events, events.iter_mut()).await?;
        let render = |event: &LogEntry| {
            RenderedEvent::new(envelope(&event.row, event.facts.as_ref()?)?).ok()
        };
        Ok(events.iter().filter_map(render).collect())
    }
}

impl TenantCounts {
    fn of(totals: &Totals) -> Self {
        let count = |status: TenantStatus| totals.count(&format!("tenant {status}"));
        Self {
            total: TenantStatus::ALL.iter().copied().map(count).sum(),
            active: count(TenantStatus::Active),
            suspended: count(TenantStatus::Suspended),
            closed: count(TenantStatus::Closed),
        }
    }
}

impl BudgetCounts {
    fn of(totals: &Totals, over_limit: i64, with_debt: i64) -> Self {
        let count =
            |unit: Unit, status: BudgetStatus| totals.count(&format!("budget {unit} {status}"));
        let of_status = |status| Unit::ALL.iter().map(|unit| count(*unit, status)).sum();
        let of_unit = |unit: &Unit| {
            let count = BudgetStatus::ALL
                .iter()
                .map(|status| count(*unit, *status))
                .sum();
            (count > 0).then_some((unit.as_str(), count))
        };
        Self {
            total: BudgetStatus::ALL.iter().copied().map(of_status).sum(),
            active: of_status(BudgetStatus::Active),
            frozen: of_status(BudgetStatus::Frozen),
            closed: of_status(BudgetStatus::Closed),
            over_limit,
            with_debt,
            by_unit: Unit::ALL.iter().filter_map(of_unit).collect(),
        }
    }
}

impl WebhookCounts {
    fn of(totals: &Totals) -> Self {
        let count = |status: WebhookStatus| totals.count(&format!("webhook {status}"));
        Self {
            total: WebhookStatus::ALL.iter().copied().map(count).sum(),
            active: count(WebhookStatus::Active),
            disabled: count(WebhookStatus::Disabled),
            with_failures: totals.failing,
        }
    }
}

/// The readable ones of these records, which the field `name` names.
fn rows<T>(
    records: &[Record],
    name: &str,
    read: impl Fn(&Record) -> Result<T, RecordError>,
) -> Vec<T> {
    let read = |record: &Record| {
        let id = record.get(name).unwrap_or("?");
        readable("row of the overview", id, read(record))
    };
    records.iter().filter_map(read).collect()
}
