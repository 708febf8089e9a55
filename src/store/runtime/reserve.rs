//! `reserve.lua`: holds an estimate on every budgeted scope, or on none.

use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::ReservationId;
use crate::domain::record::Record;
use crate::domain::reservation::facts::Fact;
use crate::driver::script::Counted;
use crate::store::signature::signature;

signature! {
    /// Holds an estimate on every budgeted scope of a subject, or on none.
    RESERVE: Reserve -> ReserveReply = "runtime/reserve";
    names { caller: &'a RuntimeCaller, key_id of caller, other_grace: bool }
    keys of partition of caller {
        read api_key(key_id);
        write tenant_key: tenant(tenant), reservation(reservation_id), reservations(tenant, day), due(tenant), due_tenants(),
            event_log: events(tenant, day), outbox(), unsigned(), days(), denials(tenant), denial_minutes: denials_due(),
            other_graces(tenant) when other_grace, rates(tenant) when rate_limits;
    }
    each { write budgets: budget }
    builds { read budget(tenant); write unsigned_refusals }
    args {
        day,
        key_hash of caller,
        tenant of caller,
        payload_hash: &'a str,
        scope_path: &'a str,
        unit: &'a str,
        amount: i64,
        requested_ttl_ms: Option<i64>,
        grace_ms: i64,
        requested_overage_policy: Option<&'a str>,
        until_ms: Option<i64>,
        reservation_id: &'a ReservationId,
        /// Overage policy, default_ttl_ms, max_ttl_ms and max_extensions of the policy that applies; - for what it leaves open.
        policy: String,
        /// Above this number in a minute, denials are only counted.
        denied_per_minute: u32,
        context: &'a str,
        policies_version: String,
        policy_from_ms: i64,
        policy_until_ms: i64,
        /// The templates of budgets that apply to the scopes, in lines; see `ledger/templates`.
        templates: Option<String>,
        /// max_reservations_per_minute, max_commits_per_minute and id of the policy, if it limits rates. Bytes that the request
        /// stores of its own, and how many a minute admits, if it counts. - for what is not limited.
        rate_limits: Option<String>,
        /// What evidence attests of the request, in lines; see `evidence/queue`.
        evidence: Option<&'a str>,
        /// Names and values of action and subject, action_kind first: for the record and the event of a denial.
        facts: Counted<&'a [Fact<'a>]>,
        /// Names and values that only the record keeps.
        kept: Vec<Fact<'a>>,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, tenant_closed, tenant_suspended, stale, rate_limited, bytes_limited, corrupt, unit_mismatch, budget_not_found,
        sweep_first, turn_first, denied, over_limit, create_first, attested,
        reserved: Reserved { now_ms: i64, ttl_ms: i64, observed: String, depths: String, snapshots: Vec<String> },
    }
    writes "On reserved: the reservation, its index, its due time, its expiry where the grace is not the usual one, \
the ledgers, the rates, events, the entry of evidence. On denied, over_limit and \
tenant_closed: the event. On attested: the entry, its count, and what the refusal in it writes. Otherwise nothing."
}

#[cfg(test)]
mod tests {
    use crate::domain::reservation::GRACE_PERIOD_MS_DEFAULT;

    #[test]
    fn the_scripts_know_the_default_grace_period() {
        let fragment = include_str!("../../../lua/lib/ledger/usual_grace.lua");
        let line = format!("local USUAL_GRACE_MS = '{GRACE_PERIOD_MS_DEFAULT}'");
        assert!(fragment.contains(&line), "{fragment}");
    }
}
