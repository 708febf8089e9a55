//! `refund.lua`: gives back a part of what was charged.

use crate::domain::amount::Unit;
use crate::domain::caller::ScriptCaller;
use crate::domain::ids::TenantId;
use crate::domain::scope::ScopePath;
use crate::store::Pair;
use crate::store::signature::signature;

signature! {
    /// Gives back a part of what a reservation or a usage event charged, on every ledger that has not begun a new period since.
    REFUND: Refund -> RefundReply = "runtime/refund";
    names { caller: ScriptCaller<'a>, key_id of caller, reservation_id: Option<&'a str>, event_id: Option<&'a str> }
    keys of partition of owner {
        read api_key(key_id);
        write tenant_key: tenant(owner), event_log: events(owner, day), outbox(), days(), over_limit_or_in_debt(),
            audit_log: audit(owner, day), chain(owner), unsealed(), usage(owner, day), record: reservation(reservation_id) when reservation_id,
            record: usage_event(event_id) when event_id;
    }
    builds { write budget(owner), more_usage }
    args {
        day,
        key_hash of caller,
        /// Of the API key; empty for the admin key.
        tenant of caller,
        payload_hash: &'a str,
        key_digest: &'a str,
        context: &'a str,
        owner: &'a TenantId,
        unit: &'a str,
        amount: i64,
        reason: &'a str,
        /// JSON.
        metadata: Option<&'a str>,
        until_ms: Option<i64>,
        /// The member of the event that names the charge: data.reservation_id or data.event_id.
        charge_name: &'a str,
        charge_id: &'a str,
        /// Names and values of the audit entry.
        audit: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, clock, not_found, foreign, scope_forbidden, idempotency_mismatch,
        replayed: Replayed { unit: Unit, refunded: i64, charged: i64, scope_path: ScopePath, ledgers: Vec<String> },
        tenant_unreadable, tenant_closed, tenant_suspended, not_charged, expired, finalized, unit_mismatch, refund_exceeds, too_many, corrupt, turn_first,
        refunded: Refunded { unit: Unit, refunded: i64, charged: i64, scope_path: ScopePath, ledgers: Vec<String> },
    }
    writes "On refunded: the record, the usage of the day, the ledgers, their places in the index of those over their limit or in debt, events, the audit entry. \
Otherwise nothing."
}
