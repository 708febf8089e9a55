//! The limits of a batch: its work, its members, its bytes. What is beyond goes later, and is done all the same.

use std::time::Duration;

use budget_authority::admin::Admin;
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::fields::Read;
use budget_authority::domain::policy::{PolicyCreateRequest, ScopePattern};
use budget_authority::store::ExtraRoundTrip;
use serde_json::json;

use super::calls::words;
use super::isolation::{ROOT, acme, figures, fixture};
use super::together::{Batch, in_batches, together};
use crate::harness::admin_fixture::{admin_key, ask};

/// A scope as deep as scopes are.
const DEEP: &str = "tenant:acme/workspace:w/app:p/workflow:f/agent:a/toolset:t";

fn all(word: &str, count: usize) -> String {
    vec![word; count].join(" ")
}

#[tokio::test]
async fn a_batch_that_has_done_much_leaves_the_rest_to_be_sent_alone() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let calls = (0..32).map(|n| acme.reserve(&format!("k{n}"), DEEP, 101, json!({})));
    let replies = together(&fixture, Batch::Create, calls.collect()).await;
    assert_eq!(words(&replies), all("BudgetExceeded", 32));
    assert_eq!(figures(&fixture, ROOT).await, [100, 0, 0, 0]);
    let counts = &fixture.store.metrics().extra_round_trips;
    let again = counts.with_label_values(&[ExtraRoundTrip::Again.as_str()]);
    // 26 members of 10 units, with 6 scopes and the event of a denial, have done more than 600.
    assert_eq!(again.get(), 6);
}

#[tokio::test]
async fn more_members_than_a_batch_has_go_in_the_next() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let calls = (0..40).map(|n| acme.reserve(&format!("k{n}"), ROOT, 1, json!({})));
    let (replies, sent) = in_batches(&fixture, Batch::Create, calls.collect()).await;
    assert_eq!(words(&replies), all("ALLOW", 40));
    assert_eq!(sent, (2, 40));
    assert_eq!(figures(&fixture, ROOT).await, [60, 40, 0, 0]);
}

#[tokio::test]
async fn more_bytes_than_a_batch_has_go_in_the_next() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let large = json!({"metadata": {"note": "x".repeat(100 << 10)}});
    let calls = vec![
        acme.reserve("a", ROOT, 1, large.clone()),
        acme.reserve("b", ROOT, 1, large.clone()),
        // It alone has more than a batch may.
        acme.reserve(
            "c",
            ROOT,
            1,
            json!({"metadata": {"note": "x".repeat(300 << 10)}}),
        ),
        acme.reserve("d", ROOT, 1, large),
        acme.reserve("e", ROOT, 1, json!({})),
    ];
    let (replies, sent) = in_batches(&fixture, Batch::Create, calls).await;
    assert_eq!(words(&replies), all("ALLOW", 5));
    assert_eq!(sent, (3, 5), "a b, c, d e");
    assert_eq!(figures(&fixture, ROOT).await, [95, 5, 0, 0]);
}

#[tokio::test]
async fn the_members_of_a_batch_count_for_the_rate_of_a_policy() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let pattern = ROOT;
    let new = json!({
        "tenant_id": "acme",
        "name": "slow",
        "scope_pattern": pattern,
        "rate_limits": {"max_reservations_per_minute": 3},
    });
    let admin = Admin::new(fixture.store.clone(), Dialect::Service);
    let new = PolicyCreateRequest::parse_json(&new.to_string()).expect("a request");
    let pattern = ScopePattern::parse(pattern).expect("a pattern");
    let (operator, cause) = (admin_key(), ask());
    let cause = cause.request();
    let made = admin.create_policy(&operator, &new, &pattern, &cause);
    made.await.expect("a new policy");
    fixture.with_left_in_minute(Duration::from_secs(20)).await;
    // It also makes the policy known.
    let first = acme.reserve("first", ROOT, 1, json!({})).await;
    assert_eq!(words(&[first]), "ALLOW");
    let calls = ["a", "b", "c", "d"].map(|key| acme.reserve(key, ROOT, 1, json!({})));
    let replies = together(&fixture, Batch::Create, calls.into()).await;
    assert_eq!(words(&replies), "ALLOW ALLOW RateLimited RateLimited");
    assert_eq!(figures(&fixture, ROOT).await, [97, 3, 0, 0]);
}
