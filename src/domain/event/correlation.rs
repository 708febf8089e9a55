//! Correlation ids of related events. Events about one scope, one kind of action and one hour share an id, so that a warning,
//! the denials behind it and the return to normal are found with one query. A single change by an operator has none: its
//! request id says as much.

use sha2::{Digest, Sha256};

use crate::domain::ids::hex;
use crate::domain::moment::Moment;
use crate::domain::record::Record;

/// The id, `None` for an event that is found by its request.
pub(super) fn of(event_type: &str, tenant: &str, at: Moment, facts: &Record) -> Option<String> {
    if let Some(given) = facts.get("correlation_id") {
        return Some(given.to_owned());
    }
    let clustered = event_type.starts_with("reservation.")
        || matches!(
            event_type,
            "api_key.auth_failure_rate_spike"
                | "budget.burn_rate_anomaly"
                | "budget.threshold_crossed"
                | "budget.exhausted"
                | "budget.debt_incurred"
                | "budget.over_limit_entered"
                | "budget.over_limit_exited"
        );
    if !clustered {
        return None;
    }
    let blamed = facts.get("data.blocked_by_scope");
    let scope = blamed.or(facts.get("scope")).unwrap_or_default();
    let kind = facts.get("kind").or(facts.get("data.action_kind"));
    Some(hash(tenant, scope, kind.unwrap_or("*"), at))
}

fn hash(tenant: &str, scope: &str, kind: &str, at: Moment) -> String {
    let time = at.to_string();
    let hour = &time[..13];
    let parts = [tenant, scope, kind, "hour", hour];
    // An array of strings without white space is in canonical form already.
    let canonical = serde_json::to_string(&parts).unwrap_or_default();
    let digest = Sha256::digest(canonical);
    format!("runtime:{}", hex(&digest[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Moment {
        Moment::parse("2026-04-09T14:30:00Z").expect("a time")
    }

    #[test]
    fn the_hash_is_the_published_one() {
        let of_call = hash("acme", "tenant:acme/app:chat", "model.call", at());
        assert_eq!(of_call, "runtime:215bc7ed42878647e783e0ae95b4c77b");
        let of_all = hash("acme", "tenant:acme", "*", at());
        assert_eq!(of_all, "runtime:d33aad4eef95228c0b25e8d886c95a01");
    }

    #[test]
    fn a_denial_shares_the_id_of_the_scope_that_blocked_it() {
        let denial = Record::from_iter([
            ("scope", "tenant:acme/app:chat"),
            ("data.blocked_by_scope", "tenant:acme"),
            ("data.action_kind", "model.call"),
        ]);
        let exhaustion = Record::from_iter([("scope", "tenant:acme"), ("kind", "model.call")]);
        let id = of("reservation.denied", "acme", at(), &denial);
        assert!(id.is_some());
        assert_eq!(id, of("budget.exhausted", "acme", at(), &exhaustion));
        assert_eq!(of("budget.funded", "acme", at(), &exhaustion), None);
        assert_eq!(of("tenant.created", "acme", at(), &exhaustion), None);
        let stored = "budget_bulk_action:credit:req_1";
        let bulk = Record::from_iter([("correlation_id", stored)]);
        let id = of("budget.funded", "acme", at(), &bulk);
        assert_eq!(id.as_deref(), Some(stored));
    }
}
