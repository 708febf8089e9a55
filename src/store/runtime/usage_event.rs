//! `usage_event.lua`: charges what was already used, without a reservation.

use crate::domain::caller::RuntimeCaller;
use crate::domain::record::Record;
use crate::domain::reservation::facts::Fact;
use crate::store::signature::signature;

signature! {
    /// Charges what was already used, without a reservation, to every budgeted scope of a subject.
    USAGE_EVENT: UsageEvent -> UsageEventReply = "runtime/usage_event";
    names { caller: &'a RuntimeCaller, key_id of caller }
    keys of partition of caller {
        read api_key(key_id), due(tenant);
        write tenant_key: tenant(tenant), usage_event(event_id), usage_events(tenant, day), event_log: events(tenant, day),
            outbox(), days(), over_limit_or_in_debt(), usage(tenant, day), rates(tenant) when stored_bytes;
    }
    each { write budgets: budget }
    builds { read budget(tenant); write more_usage }
    args {
        day,
        key_hash of caller,
        tenant of caller,
        payload_hash: &'a str,
        scope_path: &'a str,
        unit: &'a str,
        actual: i64,
        requested_overage_policy: Option<&'a str>,
        until_ms: Option<i64>,
        event_id: &'a str,
        /// As in reserve.
        policy: String,
        context: &'a str,
        policies_version: String,
        policy_from_ms: i64,
        policy_until_ms: i64,
        /// The templates of budgets that apply to the scopes, in lines; see `ledger/templates`.
        templates: Option<String>,
        /// Bytes that the request stores of its own, and how many a minute admits, if it counts.
        stored_bytes: Option<String>,
        /// Kind and name of the action and the API key come first.
        kept: &'a [Fact<'a>],
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, tenant_closed, tenant_suspended, stale, bytes_limited, corrupt, unit_mismatch, budget_not_found, inactive,
        sweep_first, turn_first, denied, create_first,
        applied: Applied { now_ms: i64, charged: i64, depths: String, snapshots: Vec<String> },
    }
    writes "On applied: the usage event, its index, the usage of the day, the ledgers, their place in the index of those over their limit or in \
debt, events; and the bytes, where it counts. Otherwise nothing."
}
