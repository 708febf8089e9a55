//! The table of the fragments of `lua/lib/`.

macro_rules! fragments {
    ($($name:literal,)*) => {
        /// The fragments of `lua/lib/`, by name.
        pub static FRAGMENTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../lua/lib/", $name, ".lua")))),*];
    };
}

fragments! {
    "base/time",
    "base/int64",
    "base/int64_wrapping",
    "base/hash_fields",
    "base/counter",
    "log/days",
    "access/access",
    "access/admin_access",
    "access/scope_filter",
    "access/subscription_fence",
    "access/tenant",
    "access/idempotency",
    "ledger/budgets",
    "ledger/budgets_of_record",
    "ledger/budgets_of_keys",
    "ledger/holds",
    "ledger/ledger_charge",
    "ledger/ledger_hold",
    "ledger/no_threshold_crossed",
    "ledger/event_preconditions",
    "ledger/ledger_events",
    "ledger/overage",
    "ledger/overage_policy",
    "ledger/overage_policy_known",
    "ledger/evaluate",
    "ledger/evaluate_other_units",
    "ledger/evaluate_dead_holds",
    "ledger/reservation",
    "ledger/reservation_replay",
    "ledger/rates",
    "ledger/rates_count",
    "ledger/thresholds",
    "ledger/thresholds_crossed",
    "ledger/over_limit_or_in_debt",
    "ledger/policies",
    "ledger/policies_read",
    "ledger/funding",
    "log/events",
    "log/audit",
    "log/audit_failures",
    "log/denials",
    "admin/bulk",
    "admin/closing",
    "admin/closing_child",
    "admin/closing_request",
    "admin/tenant_flip",
    "admin/watch",
    "admin/webhook",
    "admin/webhook_status",
    "admin/counts",
    "admin/failing",
    "admin/record_changes",
}
