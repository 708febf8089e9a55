//! The overview of all that there is: counts that scripts keep, and what happened of late. It costs the same however much is
//! stored, and a replica puts it together at most once in a few seconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::error;

use super::{Admin, AdminError};
use crate::domain::amount::Unit;
use crate::domain::budget::funding::BudgetStatus;
use crate::domain::event::StoredEvent;
use crate::domain::event::types::EventType;
use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::tenant::TenantStatus;
use crate::domain::webhook::WebhookStatus;
use crate::store::admin::overview::Strain;
use crate::store::dispatcher::views::Row;

/// How long an overview stands for the present.
const AGE: Duration = Duration::from_secs(3);
/// Rows of each list.
const ROWS: usize = 10;
/// How far back events are looked at.
pub const WINDOW: Duration = Duration::from_secs(3_600);

/// All that there is, at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// When it was put together, on the store's clock.
    pub as_of: Moment,
    /// Tenants by status.
    pub tenants: BTreeMap<&'static str, i64>,
    /// Ledgers by status.
    pub budgets: BTreeMap<&'static str, i64>,
    /// Ledgers by unit; units without any are left out.
    pub budgets_by_unit: BTreeMap<&'static str, i64>,
    /// Subscriptions by status.
    pub webhooks: BTreeMap<&'static str, i64>,
    /// Ledgers over their limit.
    pub over_limit: i64,
    /// Those of them with the highest debt.
    pub over_limit_scopes: Vec<StrainedLedger>,
    /// Ledgers that owe something.
    pub with_debt: i64,
    /// Those of them with the highest debt.
    pub debt_scopes: Vec<StrainedLedger>,
    /// Subscriptions whose deliveries fail.
    pub failing: i64,
    /// Those of them with the most failures in a row.
    pub failing_webhooks: Vec<FailingWebhook>,
    /// Events of late.
    pub events: RecentEvents,
}

/// What the view over all tenants has of the last hour, up to the moment of the overview.
#[derive(Debug, Clone, PartialEq)]
pub struct RecentEvents {
    /// How many events there were.
    pub total: i64,
    /// The same by category; those without any are left out.
    pub by_category: BTreeMap<&'static str, i64>,
    /// The latest denials of reservations as they are delivered, newest first.
    pub denials: Vec<String>,
    /// The latest expiries of reservations, likewise.
    pub expiries: Vec<String>,
    /// All denials by reason, those included that were only counted; by whole minutes.
    pub denials_by_reason: BTreeMap<String, i64>,
}

/// A ledger that owes something or is over its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrainedLedger {
    /// Its scope.
    pub scope: String,
    /// What its figures count.
    pub unit: Unit,
    /// What the operator has given.
    pub allocated: i64,
    /// What may still be reserved.
    pub remaining: i64,
    /// What it owes.
    pub debt: i64,
    /// How much debt is allowed.
    pub overdraft_limit: i64,
    /// Whether new reservations are refused.
    pub is_over_limit: bool,
}

/// A subscription whose deliveries fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingWebhook {
    /// Which.
    pub subscription_id: String,
    /// Where it delivers to.
    pub url: String,
    /// Deliveries in a row that have failed.
    pub consecutive_failures: i64,
    /// When the last one did.
    pub last_failure_at: Option<Moment>,
}

/// The last overview and when it was put together. Whoever asks meanwhile waits for the one that is under way.
#[derive(Debug, Default)]
pub(super) struct LastOverview(Mutex<Option<(Instant, Arc<Overview>)>>);

impl Admin {
    /// The overview, a few seconds old at most.
    ///
    /// # Errors
    /// Only of the store.
    pub async fn overview(&self) -> Result<Arc<Overview>, AdminError> {
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
    pub async fn overview_now(&self) -> Result<Overview, AdminError> {
        let store = &self.store;
        let totals = store.totals().await?;
        let over = store.strained(&totals.strained, Strain::OverLimit, ROWS);
        let over = over.await?;
        let debt = store.strained(&totals.strained, Strain::Debt, ROWS).await?;
        let failing = store.failing_webhooks(&totals.failing_in, ROWS).await?;
        let over_limit_scopes = ledgers(&over.worst, |ledger| ledger.is_over_limit);
        let debt_scopes = ledgers(&debt.worst, |ledger| ledger.debt > 0);
        let budgets = |status: &BudgetStatus| {
            let of_unit = |unit: Unit| totals.count(&format!("budget {unit} {status}"));
            Unit::ALL.iter().copied().map(of_unit).sum()
        };
        let of_unit = |unit: Unit| {
            let of_status =
                |status: &BudgetStatus| totals.count(&format!("budget {unit} {status}"));
            let count: i64 = BudgetStatus::ALL.iter().map(of_status).sum();
            (count > 0).then_some((unit.as_str(), count))
        };
        let now_ms = store.clock().now_ms();
        let as_of = Moment::from_ms(now_ms);
        Ok(Overview {
            as_of: as_of.ok_or_else(|| RecordError::of("as_of"))?,
            events: self.recent_events(now_ms).await?,
            tenants: by_word(TenantStatus::WORDS, |word| {
                totals.count(&format!("tenant {word}"))
            }),
            budgets: BudgetStatus::ALL
                .iter()
                .map(|status| (status.as_str(), budgets(status)))
                .collect(),
            budgets_by_unit: Unit::ALL.iter().copied().filter_map(of_unit).collect(),
            webhooks: by_word(WebhookStatus::WORDS, |word| {
                totals.count(&format!("webhook {word}"))
            }),
            over_limit: over.count,
            over_limit_scopes,
            with_debt: debt.count,
            debt_scopes,
            failing: totals.failing,
            failing_webhooks: readable(&failing, "subscription_id", FailingWebhook::of),
        })
    }

    async fn recent_events(&self, now_ms: i64) -> Result<RecentEvents, AdminError> {
        let store = &self.store;
        let from_ms = now_ms - WINDOW.as_millis() as i64;
        let window = (from_ms, now_ms);
        let counts = store.count_events(from_ms, now_ms).await?;
        let mut by_category = BTreeMap::new();
        for (kind, count) in counts.by_type {
            *by_category.entry(kind.category().as_str()).or_default() += count;
        }
        let denials = store.latest_events(EventType::ReservationDenied, window, ROWS);
        let denials = rendered(denials.await?);
        let expiries = store.latest_events(EventType::ReservationExpired, window, ROWS);
        Ok(RecentEvents {
            total: counts.total,
            by_category,
            denials,
            expiries: rendered(expiries.await?),
            denials_by_reason: store.denials_by_reason(from_ms, now_ms).await?,
        })
    }
}

/// Events as they are delivered. One that is damaged is left out.
fn rendered(events: Vec<(Row, Record)>) -> Vec<String> {
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
        envelope.ok()
    };
    events.into_iter().filter_map(render).collect()
}

fn by_word(
    words: &'static [&'static str],
    count: impl Fn(&str) -> i64,
) -> BTreeMap<&'static str, i64> {
    words.iter().map(|word| (*word, count(word))).collect()
}

/// The ledgers of these records, highest debt first. What has changed since the index was read is left out.
fn ledgers(records: &[Record], still: impl Fn(&StrainedLedger) -> bool) -> Vec<StrainedLedger> {
    let mut ledgers = readable(records, "scope", StrainedLedger::of);
    ledgers.retain(still);
    // Scores of an index are doubles; the figures are exact.
    ledgers.sort_by(|a, b| b.debt.cmp(&a.debt).then_with(|| a.scope.cmp(&b.scope)));
    ledgers
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

impl StrainedLedger {
    fn of(record: &Record) -> Result<Self, RecordError> {
        Ok(Self {
            scope: record.text("scope")?.to_owned(),
            unit: record.unit()?,
            allocated: record.integer("allocated")?,
            remaining: record.integer("remaining")?,
            debt: record.integer("debt")?,
            overdraft_limit: record.integer("overdraft_limit")?,
            is_over_limit: record.text("is_over_limit")? == "1",
        })
    }
}

impl FailingWebhook {
    fn of(record: &Record) -> Result<Self, RecordError> {
        Ok(Self {
            subscription_id: record.text("subscription_id")?.to_owned(),
            url: record.text("url")?.to_owned(),
            consecutive_failures: record.integer("consecutive_failures")?,
            last_failure_at: record.optional("last_failure_at_ms")?,
        })
    }
}
