//! Shows what there is, what needs care, and what happened lately.

mod extension;

pub use extension::{AccessControlStats, QuotaHealth, QuotaOffender};

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::events::{Event, raw};
use super::refusals::{ErrorContext, error_of};
use crate::admin::{FailingWebhook, OVERVIEW_WINDOW, Overview, StrainedLedger};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, json};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::amount::Unit;
use crate::domain::budget::funding::BudgetStatus;
use crate::domain::moment::Moment;
use crate::domain::tenant::TenantStatus;
use crate::domain::webhook::WebhookStatus;

/// All that there is, and what happened of late.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdminOverviewResponse {
    /// When it was put together.
    #[schema(value_type = String, format = DateTime)]
    pub as_of: Moment,
    /// How far back events are counted.
    pub event_window_seconds: u64,
    /// Tenants by status.
    pub tenant_counts: TenantCounts,
    /// Budgets by status and unit.
    pub budget_counts: BudgetCounts,
    /// Budgets over their limit with the highest debt.
    #[schema(max_items = 10)]
    pub over_limit_scopes: Vec<OverLimitScope>,
    /// Budgets with the highest debt.
    #[schema(max_items = 10)]
    pub debt_scopes: Vec<DebtScope>,
    /// Webhooks by status.
    pub webhook_counts: WebhookCounts,
    /// Webhooks with the most failures in a row.
    #[schema(max_items = 10)]
    pub failing_webhooks: Vec<FailingWebhookSummary>,
    /// Events of late.
    pub event_counts: EventCounts,
    /// The latest denials of reservations.
    #[schema(value_type = Vec<Event>, max_items = 10)]
    pub recent_denials: Vec<Box<RawValue>>,
    /// The latest expiries of reservations.
    #[schema(value_type = Vec<Event>, max_items = 10)]
    pub recent_expiries: Vec<Box<RawValue>>,
    /// All denials of late by reason, those included that have no event of their own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub recent_denials_by_reason: BTreeMap<String, i64>,
    /// Never sent: there are no quotas of actions here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub quota_health: Option<QuotaHealth>,
    /// Never sent: policies do not list actions here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub access_control_stats: Option<AccessControlStats>,
}

/// Tenants by status.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantCounts {
    /// All of them.
    pub total: i64,
    /// Those that may act.
    pub active: i64,
    /// Those that begin nothing new.
    pub suspended: i64,
    /// Those that have ended.
    pub closed: i64,
    /// Never sent: there is no such mode here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub in_observe_mode: Option<i64>,
}

/// Budgets by status and unit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetCounts {
    /// All of them.
    pub total: i64,
    /// Those that may be used.
    pub active: i64,
    /// Those that are frozen.
    pub frozen: i64,
    /// Those that have ended with their tenant.
    pub closed: i64,
    /// Those that refuse new reservations until they are funded.
    pub over_limit: i64,
    /// Those that owe something.
    pub with_debt: i64,
    /// By what they count; units without a budget are left out.
    pub by_unit: BTreeMap<&'static str, i64>,
}

/// A budget over its limit. Figures in its unit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OverLimitScope {
    /// Where it hangs.
    pub scope: String,
    /// What it counts.
    pub unit: Unit,
    /// What the operator has given.
    pub allocated: i64,
    /// What may still be reserved.
    pub remaining: i64,
    /// What it owes.
    pub debt: i64,
}

/// A budget that owes something. Figures in its unit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DebtScope {
    /// Where it hangs.
    pub scope: String,
    /// What it counts.
    pub unit: Unit,
    /// What it owes.
    pub debt: i64,
    /// How much debt is allowed.
    pub overdraft_limit: i64,
}

/// Webhooks by status.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookCounts {
    /// All of them, paused ones as well.
    pub total: i64,
    /// Those that get events.
    pub active: i64,
    /// Those whose receiver failed too often, or whose tenant has ended.
    pub disabled: i64,
    /// Those whose last delivery failed.
    pub with_failures: i64,
}

/// A webhook whose deliveries fail.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailingWebhookSummary {
    /// Names it.
    pub subscription_id: String,
    /// Where it delivers to.
    pub url: String,
    /// Deliveries in a row that have failed.
    pub consecutive_failures: i64,
    /// When the last one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub last_failure_at: Option<Moment>,
}

/// Events of late.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventCounts {
    /// All of them.
    pub total_recent: i64,
    /// By what they are about; categories without any are left out.
    pub by_category: BTreeMap<&'static str, i64>,
}

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Shows counts of everything, what needs care, and what happened in the last hour; a few seconds old at most",
    parameters: Vec::new,
    request: None,
    responses: &[json::<AdminOverviewResponse>(200, "The overview.")],
    errors: &[],
    handler: |method| on(method, get_overview),
};

async fn get_overview(State(state): State<AppState>) -> Returns<AdminOverviewResponse> {
    let overview = state.admin.overview().await;
    let overview = overview.map_err(|error| error_of(error, &ErrorContext::default()))?;
    Ok(CheckedJson(StatusCode::OK, response_of(&overview)?))
}

fn response_of(overview: &Overview) -> Result<AdminOverviewResponse, ApiError> {
    let budgets = |status: BudgetStatus| count(&overview.budgets, status.as_str());
    let recent = &overview.events;
    Ok(AdminOverviewResponse {
        as_of: overview.as_of,
        event_window_seconds: OVERVIEW_WINDOW.as_secs(),
        tenant_counts: TenantCounts {
            total: overview.tenants.values().sum(),
            active: count(&overview.tenants, TenantStatus::Active.as_str()),
            suspended: count(&overview.tenants, TenantStatus::Suspended.as_str()),
            closed: count(&overview.tenants, TenantStatus::Closed.as_str()),
            in_observe_mode: None,
        },
        budget_counts: BudgetCounts {
            total: overview.budgets.values().sum(),
            active: budgets(BudgetStatus::Active),
            frozen: budgets(BudgetStatus::Frozen),
            closed: budgets(BudgetStatus::Closed),
            over_limit: overview.over_limit,
            with_debt: overview.with_debt,
            by_unit: overview.budgets_by_unit.clone(),
        },
        over_limit_scopes: overview.over_limit_scopes.iter().map(over_limit).collect(),
        debt_scopes: overview.debt_scopes.iter().map(in_debt).collect(),
        webhook_counts: WebhookCounts {
            total: overview.webhooks.values().sum(),
            active: count(&overview.webhooks, WebhookStatus::Active.as_str()),
            disabled: count(&overview.webhooks, WebhookStatus::Disabled.as_str()),
            with_failures: overview.failing,
        },
        failing_webhooks: overview.failing_webhooks.iter().map(failing).collect(),
        event_counts: EventCounts {
            total_recent: recent.total,
            by_category: recent.by_category.clone(),
        },
        recent_denials: events(&recent.denials)?,
        recent_expiries: events(&recent.expiries)?,
        recent_denials_by_reason: recent.denials_by_reason.clone(),
        quota_health: None,
        access_control_stats: None,
    })
}

fn count(counts: &BTreeMap<&'static str, i64>, status: &str) -> i64 {
    counts.get(status).copied().unwrap_or(0)
}

fn over_limit(ledger: &StrainedLedger) -> OverLimitScope {
    OverLimitScope {
        scope: ledger.scope.clone(),
        unit: ledger.unit,
        allocated: ledger.allocated,
        remaining: ledger.remaining,
        debt: ledger.debt,
    }
}

fn in_debt(ledger: &StrainedLedger) -> DebtScope {
    DebtScope {
        scope: ledger.scope.clone(),
        unit: ledger.unit,
        debt: ledger.debt,
        overdraft_limit: ledger.overdraft_limit,
    }
}

fn failing(webhook: &FailingWebhook) -> FailingWebhookSummary {
    FailingWebhookSummary {
        subscription_id: webhook.subscription_id.clone(),
        url: webhook.url.clone(),
        consecutive_failures: webhook.consecutive_failures,
        last_failure_at: webhook.last_failure_at,
    }
}

/// Events as they were rendered, byte by byte.
fn events(events: &[String]) -> Result<Vec<Box<RawValue>>, ApiError> {
    events.iter().cloned().map(raw).collect()
}
