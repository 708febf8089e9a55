//! How the fields of log entries become JSON. A field holds a text; its name determines the type of the text, in events and in
//! audit entries alike.

use super::json::Json;

/// An integer, a flag (`1`, `true`), a list (blanks between), else the text itself. `None` where an integer cannot be read.
pub fn json_of(name: &str, text: &str) -> Option<Json> {
    Some(match name {
        "actual_amount"
        | "allocated"
        | "allowed_url_pattern_count"
        | "amount"
        | "api_keys_revoked"
        | "blocked_cidr_count"
        | "carried"
        | "charged"
        | "budgets_closed"
        | "count"
        | "debt"
        | "debt_incurred"
        | "default_reservation_ttl_ms"
        | "duration_ms"
        | "estimated_amount"
        | "events_queued"
        | "extensions_used"
        | "failed"
        | "failures_count"
        | "max_reservation_extensions"
        | "max_reservation_ttl_ms"
        | "new_spent"
        | "overage"
        | "overdraft_limit"
        | "previous_spent"
        | "priority"
        | "refunded"
        | "released_amount"
        | "released_reserved_amount"
        | "remaining"
        | "requested_amount"
        | "requests"
        | "reservations_released"
        | "reserved"
        | "response_status"
        | "response_time_ms"
        | "sample_count"
        | "skipped"
        | "spent"
        | "succeeded"
        | "total_debt"
        | "total_matched"
        | "webhooks_disabled"
        | "window_seconds" => text.parse::<i64>().ok()?.into(),
        "allow_http"
        | "caps_updated"
        | "default_permissions"
        | "in_progress"
        | "is_over_limit"
        | "spent_override_provided"
        | "success" => Json::Bool(matches!(text, "1" | "true")),
        "changed_fields"
        | "event_types"
        | "failed_resources"
        | "permissions"
        | "removed_default_ranges"
        | "scope_filter" => Json::Array(text.split_whitespace().map(Json::from).collect()),
        _ => text.into(),
    })
}
