//! The response of the overview.

use std::collections::BTreeMap;

use crate::domain::amount::Unit;
use crate::domain::event::RenderedEvent;
use crate::domain::fields::object;
use crate::domain::moment::Moment;

use super::ROWS;

object! {
    /// Counts of what is stored, and recent events.
    #[derive(Debug, Clone)]
    pub struct AdminOverviewResponse: Serialize + Open {
        /// When it was made, on the store's clock.
        pub as_of: Moment,
        /// How far back events are counted, in seconds.
        pub event_window_seconds: i64 { range: 0.. },
        /// Tenants by status.
        pub tenant_counts: TenantCounts,
        /// Budgets by status and unit.
        pub budget_counts: BudgetCounts,
        /// Budgets over their limit with the highest debt.
        pub over_limit_scopes: Vec<OverLimitScope> { items: ..=ROWS },
        /// Budgets with the highest debt.
        pub debt_scopes: Vec<DebtScope> { items: ..=ROWS },
        /// Webhooks by status.
        pub webhook_counts: WebhookCounts,
        /// Webhooks with the most consecutive failures.
        pub failing_webhooks: Vec<FailingWebhookSummary> { items: ..=ROWS },
        /// Recent events.
        pub event_counts: EventCounts,
        /// Latest denials of reservations, newest first.
        pub recent_denials: Vec<RenderedEvent> { items: ..=ROWS },
        /// Latest expiries of reservations, newest first.
        pub recent_expiries: Vec<RenderedEvent> { items: ..=ROWS },
        /// All recent denials by reason, in whole minutes; includes those that were only counted.
        pub recent_denials_by_reason: BTreeMap<String, i64> { skip_if: BTreeMap::is_empty },
    }
    unsent {
        /// Never sent: the service has no quotas of actions.
        quota_health: QuotaHealth,
        /// Never sent: policies do not list actions.
        access_control_stats: AccessControlStats,
    }
}

object! {
    /// Tenants by status.
    #[derive(Debug, Clone)]
    pub struct TenantCounts: Serialize {
        /// All of them.
        pub total: i64,
        /// Those that may act.
        pub active: i64,
        /// Those that may not start anything new.
        pub suspended: i64,
        /// Those that are closed.
        pub closed: i64,
    }
    unsent {
        /// Never sent: the service has no such mode.
        in_observe_mode: i64,
    }
}

object! {
    /// Budgets by status and unit.
    #[derive(Debug, Clone)]
    pub struct BudgetCounts: Serialize {
        /// All of them.
        pub total: i64,
        /// Those that may be used.
        pub active: i64,
        /// Those that are frozen.
        pub frozen: i64,
        /// Those that were closed with their tenant.
        pub closed: i64,
        /// Those that refuse new reservations until they are funded.
        pub over_limit: i64,
        /// Those in debt.
        pub with_debt: i64,
        /// By unit; units without a budget are left out.
        pub by_unit: BTreeMap<&'static str, i64>,
    }
}

object! {
    /// A budget over its limit. Figures in its unit.
    #[derive(Debug, Clone)]
    pub struct OverLimitScope: Serialize + Recorded {
        /// Scope.
        pub scope: String,
        /// Unit of the figures.
        pub unit: Unit,
        /// Allocated amount.
        pub allocated: i64,
        /// Amount that can still be reserved.
        pub remaining: i64,
        /// Amount charged beyond the available funds.
        pub debt: i64,
        /// Whether it still is over its limit.
        pub is_over_limit: bool { internal: true },
    }
}

object! {
    /// A budget in debt. Figures in its unit.
    #[derive(Debug, Clone)]
    pub struct DebtScope: Serialize + Recorded {
        /// Scope.
        pub scope: String,
        /// Unit of the figures.
        pub unit: Unit,
        /// Amount charged beyond the available funds.
        pub debt: i64,
        /// How much debt is allowed.
        pub overdraft_limit: i64,
    }
}

object! {
    /// Webhooks by status.
    #[derive(Debug, Clone)]
    pub struct WebhookCounts: Serialize {
        /// All of them, including paused ones.
        pub total: i64,
        /// Those that get events.
        pub active: i64,
        /// Those whose receiver failed too often, or whose tenant is closed.
        pub disabled: i64,
        /// Those whose last delivery failed.
        pub with_failures: i64,
    }
}

object! {
    /// A webhook whose deliveries fail.
    #[derive(Debug, Clone)]
    pub struct FailingWebhookSummary: Serialize + Recorded {
        /// Id of the subscription.
        pub subscription_id: String,
        /// Address of the receiver.
        pub url: String,
        /// Consecutive failures so far.
        pub consecutive_failures: i64,
        /// When a delivery last failed for good.
        pub last_failure_at: Option<Moment> { field: "last_failure_at_ms" },
    }
}

object! {
    /// Recent events.
    #[derive(Debug, Clone)]
    pub struct EventCounts: Serialize {
        /// All of them.
        pub total_recent: i64,
        /// By category; categories without any are left out.
        pub by_category: BTreeMap<&'static str, i64>,
    }
}

object! {
    /// How far quotas of actions are used.
    #[derive(Debug, Clone)]
    pub struct QuotaHealth: Serialize {
        /// Counters above 80 %.
        counters_above_80pct: i64 { required: false },
        /// Counters that are used up.
        counters_at_limit: i64 { required: false },
        /// The most used counters.
        top_offenders: Vec<QuotaOffender> { items: ..=ROWS, required: false, inline: true },
    }
}

object! {
    /// A quota that is much used.
    #[derive(Debug, Clone)]
    pub struct QuotaOffender: Serialize {
        /// Scope of the quota.
        scope: String,
        /// Kind of action that it counts.
        action_kind: String,
        /// Period that it counts.
        window: Option<String>,
        /// Actions so far.
        used: i64,
        /// Actions that are allowed.
        limit: i64,
        /// Share that is used, in percent.
        utilization_pct: Option<f64>,
    }
}

object! {
    /// Policies that list actions.
    #[derive(Debug, Clone)]
    pub struct AccessControlStats: Serialize {
        /// Those that allow what they list.
        policies_with_allow_list: i64 { required: false },
        /// Those that refuse what they list.
        policies_with_deny_list: i64 { required: false },
    }
}
