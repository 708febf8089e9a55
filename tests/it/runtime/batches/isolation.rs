//! Members of one batch: each finds what those before it have done, and nothing of those that were refused.

use budget_authority::domain::amount::Unit;
use budget_authority::store::ExtraRoundTrip;
use budget_authority::tools::verify::verify;
use serde_json::json;

use super::calls::{Calls, Reply, words};
use super::together::{Batch, Call, together, two_tenants_of_a_partition};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::redis::shared;
use crate::runtime::model::policies::{Rule, govern};
use crate::runtime::model::pure::Model;

pub const ROOT: &str = "tenant:acme";

/// Two tenants of a partition; a ledger with 100 for the first.
pub async fn fixture() -> LedgerFixture {
    let fixture = two_tenants_of_a_partition(&shared().url()).await;
    fixture.budget_of(0, ROOT, 100).await;
    fixture
}

pub fn acme(fixture: &LedgerFixture) -> Calls<'_> {
    Calls { fixture, tenant: 0 }
}

/// `remaining reserved spent debt` of a ledger of the first tenant. All ledgers must be right.
pub async fn figures(fixture: &LedgerFixture, scope: &str) -> [i64; 4] {
    let report = verify(&fixture.store, None, |_| {}).await;
    let report = report.expect("Redis answers");
    assert!(report.is_right(), "{}", report.table(true));
    let keys = fixture.store.keys();
    let key = keys.budget(fixture.callers[0].partition, "acme", "TOKENS", scope);
    let words = ["HMGET", &key, "remaining", "reserved", "spent", "debt"];
    fixture.run(&words).await
}

/// The events of the first tenant: type, threshold, direction, remaining.
async fn events(fixture: &LedgerFixture) -> Vec<String> {
    let (keys, caller) = (fixture.store.keys(), &fixture.callers[0]);
    let log = |day| keys.events(caller.partition, "acme", day);
    let names = [
        "type",
        "data.threshold_millionths",
        "data.direction",
        "data.remaining",
    ];
    let entries = fixture.log_facts(log).await.into_iter();
    let line = |facts: crate::harness::redis_fixture::Fields| {
        let words = names.iter().filter_map(|name| facts.get(*name));
        words.cloned().collect::<Vec<_>>().join(" ")
    };
    entries.map(line).collect()
}

#[tokio::test]
async fn a_denial_leaves_its_neighbours_alone() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let calls = vec![
        acme.reserve("a", ROOT, 60, json!({})),
        acme.reserve("b", ROOT, 60, json!({})),
        acme.decide("c", ROOT, 41),
        acme.charge("d", ROOT, 50, json!({"overage_policy": "REJECT"})),
        acme.reserve("e", ROOT, 40, json!({})),
        acme.reserve("f", "tenant:acme/workspace:w", 0, json!({})),
    ];
    let replies = together(&fixture, Batch::Create, calls).await;
    assert_eq!(
        words(&replies),
        "ALLOW BudgetExceeded DENY BudgetExceeded ALLOW ALLOW"
    );
    assert_eq!(figures(&fixture, ROOT).await, [0, 100, 0, 0]);
    let calls = vec![
        acme.commit("a", 61, json!({})),
        acme.commit("b", 1, json!({})),
        acme.release("e"),
        acme.commit("e", 1, json!({})),
        acme.extend("a", json!({})),
        acme.extend("f", json!({})),
    ];
    let replies = together(&fixture, Batch::Change, calls).await;
    assert_eq!(
        words(&replies),
        "COMMITTED NotFound RELEASED Finalized Finalized ACTIVE"
    );
    // What was left when the first was committed was nothing.
    assert_eq!(figures(&fixture, ROOT).await, [40, 0, 60, 0]);
}

#[tokio::test]
async fn of_two_members_one_gets_the_last_funds() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let calls = ["a", "b"].map(|key| acme.reserve(key, ROOT, 51, json!({})));
    let replies = together(&fixture, Batch::Create, calls.into()).await;
    assert_eq!(words(&replies), "ALLOW BudgetExceeded");
    assert_eq!(figures(&fixture, ROOT).await, [49, 51, 0, 0]);
}

#[tokio::test]
async fn a_threshold_is_announced_once_with_the_figures_of_its_member() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let reserve = |key, amount| acme.reserve(key, ROOT, amount, json!({}));
    let calls = vec![
        reserve("a", 70),
        reserve("b", 15),
        reserve("c", 5),
        acme.charge("d", ROOT, 6, json!({})),
        reserve("e", 4),
        reserve("f", 0),
    ];
    let replies = together(&fixture, Batch::Create, calls).await;
    assert_eq!(words(&replies), "ALLOW ALLOW ALLOW APPLIED ALLOW ALLOW");
    let rising = [
        "budget.threshold_crossed 800000 rising 15",
        "budget.threshold_crossed 950000 rising 4",
        "budget.threshold_crossed 1000000 rising 0",
        "budget.exhausted 1000000 rising 0",
    ];
    assert_eq!(events(&fixture).await, rising);

    let keys = fixture.store.keys();
    let key = keys.budget(fixture.callers[0].partition, "acme", "TOKENS", ROOT);
    fixture
        .set(&key, &[("announced", "1000000 1000 1000")])
        .await;
    let calls = ["c", "b", "a"].map(|key| acme.release(key));
    let replies = together(&fixture, Batch::Change, calls.into()).await;
    assert_eq!(words(&replies), "RELEASED RELEASED RELEASED");
    let falling = [
        "budget.threshold_crossed 1000000 falling 20",
        "budget.threshold_crossed 950000 falling 20",
        "budget.threshold_crossed 800000 falling 90",
    ];
    assert_eq!(events(&fixture).await[4..], falling);
    assert_eq!(figures(&fixture, ROOT).await, [90, 4, 6, 0]);
}

#[tokio::test]
async fn a_member_finds_the_debt_of_the_one_before() {
    let fixture = two_tenants_of_a_partition(&shared().url()).await;
    fixture.seed(0, ROOT, Unit::Tokens, 30, 50).await;
    let acme = acme(&fixture);
    let overdraft = || json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
    let calls = vec![
        acme.reserve("a", ROOT, 10, overdraft()),
        acme.charge("b", ROOT, 40, overdraft()),
        acme.reserve("c", ROOT, 0, json!({})),
        acme.charge("d", ROOT, 31, overdraft()),
        acme.charge("e", ROOT, 30, overdraft()),
    ];
    let replies = together(&fixture, Batch::Create, calls).await;
    assert_eq!(
        words(&replies),
        "ALLOW APPLIED DebtOutstanding OverdraftLimitExceeded APPLIED"
    );
    assert_eq!(figures(&fixture, ROOT).await, [-50, 10, 20, 50]);
    let calls = vec![
        acme.commit("a", 11, json!({})),
        acme.commit("a", 10, json!({"idempotency_key": "other"})),
    ];
    let replies = together(&fixture, Batch::Change, calls).await;
    assert_eq!(words(&replies), "OverdraftLimitExceeded COMMITTED");
    assert_eq!(figures(&fixture, ROOT).await, [-50, 0, 30, 50]);
}

#[tokio::test]
async fn a_member_finds_the_charge_that_took_the_ledger_over_its_limit() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let calls = vec![
        acme.charge("a", ROOT, 101, json!({})),
        acme.reserve("b", ROOT, 0, json!({})),
        acme.charge("c", ROOT, 1, json!({})),
        acme.reserve("d", ROOT, 0, json!({})),
    ];
    let replies = together(&fixture, Batch::Create, calls).await;
    assert_eq!(
        words(&replies),
        "APPLIED OverdraftLimitExceeded APPLIED OverdraftLimitExceeded"
    );
    let event = &replies[0].as_ref().expect("applied")["event_id"];
    let event = event.as_str().expect("an id");
    for refused in [&replies[1], &replies[3]] {
        let text = format!("{refused:?}");
        assert!(text.contains(event), "{text} names {event}");
    }
    let keys = fixture.store.keys();
    let key = keys.budget(fixture.callers[0].partition, "acme", "TOKENS", ROOT);
    let by: String = fixture.run(&["HGET", &key, "over_limit_by"]).await;
    assert_eq!(by, event);
}

#[tokio::test]
async fn a_key_twice_in_a_batch_is_done_once() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let creates = |amount| -> Vec<Call<'_, Reply>> {
        vec![
            acme.reserve("a", ROOT, amount, json!({})),
            acme.charge("b", ROOT, amount, json!({})),
            acme.decide("c", ROOT, amount),
        ]
    };
    let calls = [creates(7), creates(7), creates(8)];
    let replies = together(
        &fixture,
        Batch::Create,
        calls.into_iter().flatten().collect(),
    )
    .await;
    let (first, rest) = replies.split_at(3);
    assert_eq!(words(first), "ALLOW APPLIED ALLOW");
    let comparable = |replies: &[Reply]| -> Vec<_> {
        let comparable = replies.iter().map(|reply| {
            let mut response = reply.as_ref().expect("done").clone();
            response
                .as_object_mut()
                .expect("an object")
                .remove("remaining_ttl_ms");
            response
        });
        comparable.collect()
    };
    assert_eq!(comparable(&rest[..3]), comparable(first));
    assert_eq!(
        words(&rest[3..]),
        "IdempotencyMismatch IdempotencyMismatch IdempotencyMismatch"
    );
    assert_eq!(figures(&fixture, ROOT).await, [86, 7, 7, 0]);
    let calls = [5, 5, 6].map(|amount| acme.commit("a", amount, json!({})));
    let replies = together(&fixture, Batch::Change, calls.into()).await;
    assert_eq!(words(&replies), "COMMITTED COMMITTED IdempotencyMismatch");
    assert_eq!(comparable(&replies[1..2]), comparable(&replies[..1]));
    assert_eq!(figures(&fixture, ROOT).await, [88, 0, 12, 0]);
}

#[tokio::test]
async fn a_member_under_a_stale_policy_goes_again_and_the_others_do_not() {
    let fixture = fixture().await;
    let other = format!("tenant:{}", fixture.callers[1].tenant);
    fixture.budget_of(1, &other, 100).await;
    let rule = Rule {
        pattern: 0,
        priority: 0,
        overage: None,
        extensions: Some(1),
        template: None,
        active: true,
    };
    govern(&fixture, &mut Model::new(&fixture), 1, 0, rule).await;
    let bolt = Calls {
        fixture: &fixture,
        tenant: 1,
    };
    let acme = acme(&fixture);
    let calls = vec![
        acme.reserve("a", ROOT, 10, json!({})),
        bolt.reserve("a", &other, 20, json!({})),
        acme.reserve("b", ROOT, 30, json!({})),
    ];
    let replies = together(&fixture, Batch::Create, calls).await;
    assert_eq!(words(&replies), "ALLOW ALLOW ALLOW");
    let counts = &fixture.store.metrics().extra_round_trips;
    let stale = counts.with_label_values(&[ExtraRoundTrip::Stale.as_str()]);
    assert_eq!(stale.get(), 1);
    assert_eq!(figures(&fixture, ROOT).await, [60, 40, 0, 0]);
}

#[tokio::test]
async fn a_member_that_raises_is_counted_and_the_others_are_done() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let (id, partition) = (acme.id("b").await, fixture.callers[0].partition);
    let record = fixture.store.keys().reservation(partition, &id);
    fixture.run::<i64>(&["RPUSH", &record, "x"]).await;
    let calls = ["a", "b", "c"].map(|key| acme.reserve(key, ROOT, 10, json!({})));
    let replies = together(&fixture, Batch::Create, calls.into()).await;
    assert_eq!(words(&replies), "ALLOW Script ALLOW");
    let metrics = fixture.store.metrics();
    assert_eq!(metrics.batch_members_failed.get(), 1);
    assert_eq!(metrics.batch_queued.get_sample_count(), 3);
    fixture.run::<i64>(&["DEL", &record]).await;
    assert_eq!(figures(&fixture, ROOT).await, [80, 20, 0, 0]);
}
