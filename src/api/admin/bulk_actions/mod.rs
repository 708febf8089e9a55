//! Bulk actions: `POST /v1/admin/{tenants,webhooks,budgets}/bulk-action`.

pub mod handlers;
mod read;

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::funding::{BudgetStatus, FundingOperation};
use crate::domain::bulk::{BulkActionRowOutcome, TenantAction, WebhookAction};
use crate::domain::event::types::{EventType, EventTypeName};
use crate::domain::ids::IdempotencyKey;
use crate::domain::tenant::TenantStatus;
use crate::domain::webhook::WebhookStatus;

/// Which tenants are meant; at least one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantBulkFilter {
    /// Whether they may act.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub status: Option<TenantStatus>,
    /// Their parent, exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub parent_tenant_id: Option<String>,
    /// Must be absent or blank: nothing is known of it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub observe_mode: Option<String>,
    /// What id or name must contain, whatever the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128, nullable = false)]
    pub search: Option<String>,
}

/// Which webhook subscriptions are meant; at least one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookBulkFilter {
    /// Whose; `__system__` for the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tenant_id: Option<String>,
    /// Whether they get events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub status: Option<WebhookStatus>,
    /// Which name this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = EventType, required = false)]
    pub event_type: Option<EventTypeName>,
    /// What id or address must contain, whatever the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128, nullable = false)]
    pub search: Option<String>,
}

/// Which budgets of one tenant are meant.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetBulkFilter {
    /// Whose.
    pub tenant_id: String,
    /// What the scope must start with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scope_prefix: Option<String>,
    /// What they count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub unit: Option<Unit>,
    /// Whether they may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub status: Option<BudgetStatus>,
    /// Whether they are over their limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub over_limit: Option<bool>,
    /// Whether they are in debt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub has_debt: Option<bool>,
    /// What share of the allocation was spent, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1, nullable = false)]
    pub utilization_min: Option<f64>,
    /// What share of the allocation was spent, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1, nullable = false)]
    pub utilization_max: Option<f64>,
    /// What tenant or scope must contain, whatever the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128, nullable = false)]
    pub search: Option<String>,
}

/// Does the same to many tenants.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantBulkActionRequest {
    /// Which.
    pub filter: TenantBulkFilter,
    /// What.
    pub action: TenantAction,
    /// How many are expected to match; with another number nothing is done.
    #[schema(minimum = 0, nullable = false)]
    pub expected_count: Option<i64>,
    /// Names this attempt; repeating it under the same key within 15 minutes changes once.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    pub idempotency_key: IdempotencyKey,
}

/// Does the same to many webhook subscriptions.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookBulkActionRequest {
    /// Which.
    pub filter: WebhookBulkFilter,
    /// What.
    pub action: WebhookAction,
    /// How many are expected to match; with another number nothing is done.
    #[schema(minimum = 0, nullable = false)]
    pub expected_count: Option<i64>,
    /// Names this attempt; repeating it under the same key within 15 minutes changes once.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    pub idempotency_key: IdempotencyKey,
}

/// Funds many budgets of one tenant.
#[derive(Debug, Clone, PartialEq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetBulkActionRequest {
    /// Which.
    pub filter: BudgetBulkFilter,
    /// What.
    pub action: FundingOperation,
    /// By how much; needed for every action. Budgets that count something else fail.
    #[schema(required = false)]
    pub amount: Amount,
    /// What counts as spent afterwards: with `RESET_SPENT` only; absent: nothing.
    #[schema(nullable = false)]
    pub spent: Option<Amount>,
    /// Why, for the record.
    #[schema(max_length = 512, nullable = false)]
    pub reason: Option<String>,
    /// How many are expected to match; with another number nothing is done.
    #[schema(minimum = 0, nullable = false)]
    pub expected_count: Option<i64>,
    /// Names this attempt; repeating it under the same key within 15 minutes changes once.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    pub idempotency_key: IdempotencyKey,
}

macro_rules! responses {
    ($($(#[$doc:meta])* $name:ident: $action:ty,)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, ToSchema)]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                /// What was done.
                pub action: $action,
                /// How many rows matched.
                #[schema(minimum = 0)]
                pub total_matched: i64,
                /// Rows that are as asked.
                pub succeeded: Vec<BulkActionRowOutcome>,
                /// Rows that could not be done.
                pub failed: Vec<BulkActionRowOutcome>,
                /// Rows with nothing to be done.
                pub skipped: Vec<BulkActionRowOutcome>,
                /// As it was sent.
                pub idempotency_key: String,
            }
        )*
    };
}

responses! {
    /// What became of each tenant.
    TenantBulkActionResponse: TenantAction,
    /// What became of each webhook subscription.
    WebhookBulkActionResponse: WebhookAction,
    /// What became of each budget.
    BudgetBulkActionResponse: FundingOperation,
}
