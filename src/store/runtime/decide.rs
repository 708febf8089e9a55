//! `decide.lua`: whether an estimate could be held now; serves decide and the dry run of a create.

use crate::domain::caller::RuntimeCaller;
use crate::domain::record::Record;
use crate::domain::refusal::Denial;
use crate::domain::reservation::facts::Fact;
use crate::store::signature::signature;

signature! {
    /// Decides whether an estimate could be held now; holds nothing. Serves decide and the dry run of a create, whose outcome
    /// is kept under the key of the reservation that it does not make.
    DECIDE: Decide -> DecideReply = "runtime/decide";
    names { caller: &'a RuntimeCaller, key_id of caller, decision_id: Option<&'a str>, reservation_id: Option<&'a str> }
    keys of partition of caller {
        read api_key(key_id), due(tenant);
        write tenant_key: tenant(tenant), event_log: events(tenant, day), outbox(), unsigned(), days(), denials(tenant),
            denial_minutes: denials_due(), short_lived(tenant),
            outcome: decision(decision_id) when decision_id, outcome: reservation(reservation_id) when reservation_id,
            rates(tenant) when stored_bytes;
    }
    each { read budgets: budget }
    builds { read budget(tenant); write unsigned_refusals }
    args {
        day,
        key_hash of caller,
        tenant of caller,
        payload_hash: &'a str,
        scope_path: &'a str,
        unit: &'a str,
        amount: i64,
        until_ms: Option<i64>,
        /// DECISION or DRY_RUN.
        outcome_status: &'a str,
        /// Of the policy that applies, JSON.
        caps: Option<String>,
        /// Above this number in a minute, denials are only counted.
        denied_per_minute: u32,
        context: &'a str,
        /// Of the outcome.
        retention_ms: i64,
        policies_version: String,
        policy_from_ms: i64,
        policy_until_ms: i64,
        /// The templates of budgets that apply to the scopes, in lines; see `ledger/templates`.
        templates: Option<String>,
        /// What evidence attests of the request, in lines; see `evidence/queue`.
        evidence: Option<&'a str>,
        /// Bytes that evidence of the request stores, and how many a minute admits, if it counts.
        stored_bytes: Option<String>,
        /// Names and values of action and subject, action_kind first.
        facts: &'a [Fact<'a>],
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, bytes_limited, stale, corrupt, unit_mismatch, attested, sweep_first, turn_first,
        deny: Deny { now_ms: i64, reason: Denial },
        allow: Allow { now_ms: i64, observed: String, depths: String, snapshots: Vec<String> },
    }
    writes "On deny and allow: the outcome and the count of its bytes; on deny, and where budgets observe, the events; the count of bytes, and the entry of evidence. On attested: \
the entry and its count. Otherwise nothing."
}
