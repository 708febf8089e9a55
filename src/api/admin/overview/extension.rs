//! Members that the wire knows and that this service never sends, because it has nothing of the kind.

use serde::Serialize;
use utoipa::ToSchema;

/// How far quotas of actions are used.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaHealth {
    /// Counters above four fifths.
    #[schema(required = false)]
    pub counters_above_80pct: i64,
    /// Counters that are used up.
    #[schema(required = false)]
    pub counters_at_limit: i64,
    /// The most used ones.
    #[schema(max_items = 10, required = false, inline)]
    pub top_offenders: Vec<QuotaOffender>,
}

/// A counter that is much used.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaOffender {
    /// Where it counts.
    pub scope: String,
    /// What it counts.
    pub action_kind: String,
    /// For how long it counts.
    #[schema(nullable = false)]
    pub window: Option<String>,
    /// What was counted.
    pub used: i64,
    /// Up to what it counts.
    pub limit: i64,
    /// The one of the other.
    #[schema(nullable = false)]
    pub utilization_pct: Option<f64>,
}

/// Policies that list actions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessControlStats {
    /// Those that admit what they list.
    #[schema(required = false)]
    pub policies_with_allow_list: i64,
    /// Those that refuse it.
    #[schema(required = false)]
    pub policies_with_deny_list: i64,
}
