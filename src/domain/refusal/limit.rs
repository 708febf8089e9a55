//! How many records of a kind an owner may have, how much memory a tenant's data may take, and the refusals of more.

use crate::domain::words::words;

words! {
    /// Unit.
    CountLimit: "snake_case" {
        /// Budgets of a tenant.
        Budgets,
        /// Temporary increases of a budget.
        Increases,
        /// Refunds of a charge.
        Refunds,
        /// Combinations that a report of usage reads.
        Combinations,
        /// API keys of a tenant.
        ApiKeys,
        /// Policies of a tenant.
        Policies,
        /// Subscriptions of a tenant or of the operator.
        Webhooks,
        /// Different thresholds that the active subscriptions of an owner watch.
        Thresholds,
        /// Different windows of burn rates that the active subscriptions of an owner watch.
        BurnWindows,
    }
}

impl CountLimit {
    /// The setting that sets the limit, or the name of a constant one.
    pub fn label(self) -> &'static str {
        match self {
            Self::Budgets => "BUDGET_BUDGETS_PER_TENANT",
            Self::Increases => "increases_per_budget",
            Self::Refunds => "refunds_per_charge",
            Self::Combinations => "combinations_per_report",
            Self::ApiKeys => "api_keys_per_tenant",
            Self::Policies => "BUDGET_POLICIES_PER_TENANT",
            Self::Webhooks => "BUDGET_WEBHOOKS_PER_OWNER",
            Self::Thresholds => "thresholds_per_owner",
            Self::BurnWindows => "burn_windows",
        }
    }

    fn counted(self) -> &'static str {
        match self {
            Self::Budgets => "budgets of the tenant",
            Self::Increases => "temporary increases of the budget",
            Self::Refunds => "refunds of the charge",
            Self::Combinations => {
                "combinations of scope, action and API key in these days, or groups of them"
            }
            Self::ApiKeys => "API keys of the tenant",
            Self::Policies => "policies of the tenant",
            Self::Webhooks => "webhooks of the owner",
            Self::Thresholds => "different thresholds that the owner's active webhooks watch",
            Self::BurnWindows => {
                "different windows of burn rates that the owner's active webhooks watch"
            }
        }
    }

    fn way_out(self) -> &'static str {
        match self {
            Self::Budgets => "the operator can raise the limit",
            Self::Policies => "change one that exists",
            Self::Refunds => "credit the budgets instead",
            Self::Combinations => "narrow them with from and to",
            Self::ApiKeys => "change one that is active; revoked and expired ones count as well",
            Self::Increases => "end one, or wait for the end of one",
            Self::Webhooks => "delete one that is not needed",
            Self::Thresholds => "use thresholds that are watched already, or pause a webhook",
            Self::BurnWindows => "use a window that is watched already, or pause a webhook",
        }
    }
}

/// How many records an owner may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountLimits {
    /// Of a tenant.
    pub budgets: u32,
    /// Of a tenant, revoked and expired ones included.
    pub api_keys: u32,
    /// Of a tenant.
    pub policies: u32,
    /// Of a tenant or of the operator.
    pub webhooks: u32,
    /// Different thresholds that the active subscriptions of an owner watch.
    pub thresholds: u32,
}

impl CountLimits {
    /// The limits unless settings say otherwise. Each request that moves money compares the balance with all the thresholds.
    pub const DEFAULT: Self = Self {
        budgets: 100_000,
        // Their records are never deleted.
        api_keys: 10_000,
        policies: 1_000,
        webhooks: 500,
        thresholds: 64,
    };
}

/// The owner has as many as it may, or would have more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Too many {}: {present}, with a limit of {limit} ({}); {}", count.counted(), count.label(), count.way_out())]
pub struct TooMany {
    /// Unit.
    pub count: CountLimit,
    /// How many the owner may have.
    pub limit: i64,
    /// How many there would be.
    pub present: i64,
}

/// While Redis is short of memory, the tenant's data takes more of it than its share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Redis is short of memory, and the data of this tenant takes {present} bytes, with a limit of {limit} \
     (BUDGET_TENANT_MEMORY_SHARE); store fewer or smaller records, or ask the operator for a shorter retention, a larger share or more \
     memory"
)]
pub struct StockTooLarge {
    /// The share in bytes.
    pub limit: i64,
    /// Bytes that the data takes, as last measured.
    pub present: i64,
}
