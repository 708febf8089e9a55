//! Commits of 400 on a hold of 300, when the three scopes have 40, 70 and 500 left.

use serde_json::json;

use super::on;
use crate::harness::random_clients::action;
use crate::harness::runtime_calls::tokens;
use crate::harness::three_scopes::ThreeScopes;

/// Overage policy, overdraft limits, and the expected outcome.
pub struct Case {
    policy: &'static str,
    limits: [i64; 3],
    outcome: Outcome,
    /// `remaining spent debt` of each ledger afterwards.
    figures: [[i64; 3]; 3],
    /// The reason for which the next hold is refused.
    then: &'static str,
}

enum Outcome {
    Charged(i64),
    /// With this code; the hold stays.
    Refused(&'static str),
}

const BEFORE: [[i64; 3]; 3] = [[40, 660, 0], [70, 630, 0], [500, 200, 0]];

pub const TABLE: [Case; 6] = [
    Case {
        policy: "REJECT",
        limits: [0, 0, 0],
        outcome: Outcome::Refused("BUDGET_EXCEEDED"),
        figures: BEFORE,
        then: "BUDGET_EXCEEDED",
    },
    Case {
        policy: "ALLOW_IF_AVAILABLE",
        limits: [0, 0, 0],
        outcome: Outcome::Charged(340),
        figures: [[0, 1_000, 0], [30, 970, 0], [460, 540, 0]],
        then: "OVERDRAFT_LIMIT_EXCEEDED",
    },
    Case {
        policy: "ALLOW_WITH_OVERDRAFT",
        limits: [0, 0, 0],
        outcome: Outcome::Charged(340),
        figures: [[0, 1_000, 0], [30, 970, 0], [460, 540, 0]],
        then: "OVERDRAFT_LIMIT_EXCEEDED",
    },
    Case {
        policy: "ALLOW_WITH_OVERDRAFT",
        limits: [200, 0, 50],
        outcome: Outcome::Charged(370),
        figures: [[-30, 1_000, 30], [0, 1_000, 0], [430, 570, 0]],
        then: "OVERDRAFT_LIMIT_EXCEEDED",
    },
    Case {
        policy: "ALLOW_WITH_OVERDRAFT",
        limits: [200, 200, 0],
        outcome: Outcome::Charged(400),
        figures: [[-60, 1_000, 60], [-30, 1_000, 30], [400, 600, 0]],
        then: "DEBT_OUTSTANDING",
    },
    Case {
        policy: "ALLOW_WITH_OVERDRAFT",
        limits: [50, 200, 0],
        outcome: Outcome::Refused("OVERDRAFT_LIMIT_EXCEEDED"),
        figures: BEFORE,
        then: "BUDGET_EXCEEDED",
    },
];

pub async fn check(tenant: &ThreeScopes, case: &Case) {
    tenant
        .ledgers(case.limits.map(|limit| [1_000, limit]))
        .await;
    for (depth, amount) in [(3, 200), (2, 430), (1, 30)] {
        let event = json!({
            "idempotency_key": format!("e{depth}"), "subject": tenant.subject(depth), "action": action(),
            "actual": tokens(amount),
        });
        tenant.post("/v1/events", &event, 201).await;
    }
    let mut create = tenant.request("r", "estimate", 300);
    create["overage_policy"] = json!(case.policy);
    let reserved = tenant.post_twice("/v1/reservations", &create, 200).await;
    let commit_path = on(reserved.text("reservation_id"), "commit");
    let commit = json!({"idempotency_key": "c", "actual": tokens(400)});
    let reserved_after = match case.outcome {
        Outcome::Charged(charged) => {
            let committed = tenant.post_twice(&commit_path, &commit, 200).await;
            assert_eq!(committed.amount("charged"), Some(charged));
            assert_eq!(committed.amount("released"), None);
            0
        }
        Outcome::Refused(code) => {
            tenant.refused(&commit_path, &commit, 409, code).await;
            300
        }
    };
    let expected = case
        .figures
        .map(|[remaining, spent, debt]| [remaining, reserved_after, spent, debt]);
    assert_eq!(
        tenant.figures().await,
        expected,
        "{} {:?}",
        case.policy,
        case.limits
    );
    let next = tenant.request("next", "estimate", 41);
    tenant
        .refused("/v1/reservations", &next, 409, case.then)
        .await;
    if let Outcome::Refused(_) = case.outcome {
        // A refusal leaves the key free for a smaller amount.
        let smaller = json!({"idempotency_key": "c", "actual": tokens(300)});
        let committed = tenant.post_twice(&commit_path, &smaller, 200).await;
        assert_eq!(committed.amount("charged"), Some(300));
    }
    tenant.audit().await;
}
