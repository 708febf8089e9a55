//! The overview of all that there is: counts that scripts keep, and what happened of late. It costs the same however much is
//! stored, and a replica puts it together at most once in a few seconds.

mod response;

pub use response::*;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::error;

use super::{Admin, AdminError};
use crate::domain::amount::Unit;
use crate::domain::budget::funding::BudgetStatus;
use crate::domain::event::types::EventType;
use crate::domain::event::{Event, StoredEvent};
use crate::domain::fields::{Rendered, Unsent};
use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::tenant::TenantStatus;
use crate::domain::webhook::WebhookStatus;
use crate::store::admin::overview::{IndexReason, Totals};
use crate::store::dispatcher::views::Row;

/// How long an overview stands for the present.
const AGE: Duration = Duration::from_secs(3);
/// Rows of each list.
const ROWS: usize = 10;
/// How far back events are looked at.
const WINDOW: Duration = Duration::from_secs(3_600);

/// The last overview and when it was put together. Whoever asks meanwhile waits for the one that is under way.
#[derive(Debug, Default)]
pub(super) struct LastOverview(Mutex<Option<(Instant, Arc<AdminOverviewResponse>)>>);

impl Admin {
    /// The overview, a few seconds old at most.
    ///
    /// # Errors
    /// Only of the store.
    pub async fn overview(&self) -> Result<Arc<AdminOverviewResponse>, AdminError> {
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
    pub async fn overview_now(&self) -> Result<AdminOverviewResponse, AdminError> {
        let store = &self.store;
        let totals = store.totals().await?;
        let fields = OverLimitScope::field_names();
        let over = store.indexed_ledgers(
            &totals.over_limit_or_in_debt,
            IndexReason::OverLimit,
            ROWS,
            &fields,
        );
        let over = over.await?;
        let fields = DebtScope::field_names();
        let debt = store.indexed_ledgers(
            &totals.over_limit_or_in_debt,
            IndexReason::Debt,
            ROWS,
            &fields,
        );
        let debt = debt.await?;
        let fields = FailingWebhookSummary::field_names();
        let failing = store
            .failing_webhooks(&totals.failing_in, ROWS, &fields)
            .await?;
        let mut over_limit_scopes = readable(&over.worst, "scope", OverLimitScope::from_record);
        let mut debt_scopes = readable(&debt.worst, "scope", DebtScope::from_record);
        // What has changed since the index was read is left out. Its scores are doubles; the figures are exact.
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
            failing_webhooks: readable(
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
            quota_health: Unsent::default(),
            access_control_stats: Unsent::default(),
        })
    }

    /// The latest events of a type, newest first. One that is damaged is left out.
    async fn latest(
        &self,
        event_type: EventType,
        window: (i64, i64),
    ) -> Result<Vec<Rendered<Event>>, AdminError> {
        let events = self.store.latest_events(event_type, window, ROWS).await?;
        let render = |(row, facts): (Row, Record)| {
            let event = StoredEvent {
                partition: row.partition,
                tenant: &row.tenant,
                entry: &row.entry.to_string(),
                facts: &facts,
            };
            let envelope = event.envelope();
            if let Err(damage) = &envelope {
                error!(
                    event = row.member(), error = %damage,
                    "the event `{}` is left out of the overview: {damage}", row.member()
                );
            }
            Rendered::new(envelope.ok()?).ok()
        };
        Ok(events.into_iter().filter_map(render).collect())
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
            in_observe_mode: Unsent::default(),
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

/// What can be read of these records, which `name` names. One that is damaged must not take the whole overview away.
fn readable<T>(
    records: &[Record],
    name: &str,
    read: impl Fn(&Record) -> Result<T, RecordError>,
) -> Vec<T> {
    let read = |record: &Record| match read(record) {
        Ok(row) => Some(row),
        Err(damage) => {
            let which = record.get(name).unwrap_or("?");
            error!(error = %damage, "`{which}` is left out of the overview: {damage}");
            None
        }
    };
    records.iter().filter_map(read).collect()
}
