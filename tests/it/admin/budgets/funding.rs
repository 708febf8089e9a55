//! Funding: every operation on ledgers with and without debt, exact to the unit.

use budget_authority::admin::{FundReply, Funding};
use budget_authority::domain::budget::ledger::FundingOperation::{self, *};
use budget_authority::domain::refusal::{BudgetRefusal, Refusal};
use budget_authority::store::StoreError;

use crate::harness::admin_fixture::{
    AdminFixture, admin_key, ask, funding, refusal, refused_budget,
};

pub(crate) const ROOT: &str = "tenant:acme";

/// A ledger before an operation.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    allocated: i64,
    spent: i64,
    reserved: i64,
    debt: i64,
    limit: i64,
}

/// With funds left.
pub(crate) const A: Start = Start {
    allocated: 10_000,
    spent: 3_000,
    reserved: 1_000,
    debt: 0,
    limit: 500,
};
/// In debt beyond its limit.
const B: Start = Start {
    allocated: 10_000,
    spent: 10_000,
    reserved: 0,
    debt: 600,
    limit: 500,
};

pub(crate) async fn fixture(start: Start) -> AdminFixture {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    fixture.budget("acme", ROOT, 0).await;
    set(&fixture, start);
    fixture
}

/// Writes the figures of a ledger as if the runtime plane had made them.
fn set(fixture: &AdminFixture, start: Start) {
    let Start {
        allocated,
        spent,
        reserved,
        debt,
        limit,
    } = start;
    let remaining = allocated - spent - reserved - debt;
    let over = i64::from(debt > limit);
    let figures = [
        ("allocated", allocated),
        ("spent", spent),
        ("reserved", reserved),
        ("debt", debt),
        ("overdraft_limit", limit),
        ("remaining", remaining),
        ("is_over_limit", over),
        ("base_spent", 0),
        ("base_debt", 0),
    ];
    let key = fixture.budget_key("acme", ROOT);
    for (name, figure) in figures {
        fixture
            .redis()
            .run::<()>(&["HSET", &key, name, &figure.to_string()]);
    }
}

pub(crate) async fn fund(
    fixture: &AdminFixture,
    funding: &Funding,
) -> Result<FundReply, StoreError> {
    fixture
        .admin
        .fund_budget(&admin_key(), funding, &ask().by(&admin_key()).request())
        .await
}

/// What a reply holds, for comparison.
pub(crate) fn figures_of(reply: FundReply) -> impl PartialEq + std::fmt::Debug {
    let FundReply::Funded {
        at,
        allocated,
        remaining,
        debt,
        spent,
    } = reply;
    (at, [allocated, remaining, debt, spent])
}

pub(crate) fn by(operation: FundingOperation, amount: i64) -> Funding {
    funding(Some("acme"), ROOT, operation, amount)
}

pub(crate) fn spent(amount: i64, spent: i64) -> Funding {
    Funding {
        spent: Some(spent),
        ..by(ResetSpent, amount)
    }
}

#[tokio::test]
async fn every_operation_moves_what_it_should_and_nothing_else() {
    let fixture = fixture(A).await;
    // Funding, then allocated, spent, debt, remaining and whether over the limit; None: too little remains.
    let rows = [
        (A, by(Credit, 2_500), Some((12_500, 3_000, 0, 8_500, false))),
        (A, by(Debit, 2_500), Some((7_500, 3_000, 0, 3_500, false))),
        (A, by(Debit, 6_000), Some((4_000, 3_000, 0, 0, false))),
        (A, by(Debit, 6_001), None),
        (A, by(Reset, 5_000), Some((5_000, 3_000, 0, 1_000, false))),
        (A, by(Reset, 3_000), Some((3_000, 3_000, 0, -1_000, false))),
        (
            A,
            by(ResetSpent, 12_000),
            Some((12_000, 0, 0, 11_000, false)),
        ),
        (
            A,
            spent(12_000, 11_500),
            Some((12_000, 11_500, 0, -500, false)),
        ),
        (
            A,
            by(RepayDebt, 400),
            Some((10_400, 3_000, 0, 6_400, false)),
        ),
        (
            B,
            by(Credit, 2_500),
            Some((12_500, 10_000, 600, 1_900, true)),
        ),
        (B, by(Debit, 0), None),
        (
            B,
            by(Reset, 5_000),
            Some((5_000, 10_000, 600, -5_600, true)),
        ),
        (
            B,
            by(ResetSpent, 12_000),
            Some((12_000, 0, 600, 11_400, true)),
        ),
        (
            B,
            by(RepayDebt, 99),
            Some((10_000, 10_000, 501, -501, true)),
        ),
        (
            B,
            by(RepayDebt, 100),
            Some((10_000, 10_000, 500, -500, false)),
        ),
        (
            B,
            by(RepayDebt, 400),
            Some((10_000, 10_000, 200, -200, false)),
        ),
        (
            B,
            by(RepayDebt, 1_000),
            Some((10_400, 10_000, 0, 400, false)),
        ),
        (A, by(Credit, 0), Some((10_000, 3_000, 0, 6_000, false))),
    ];
    for (start, funding, expected) in rows {
        set(&fixture, start);
        let outcome = fund(&fixture, &funding).await;
        let row = format!("{:?} {:?}", funding.operation, funding.amount);
        let ledger = fixture.ledger(ROOT).await;
        let Some((allocated, spent, debt, remaining, over)) = expected else {
            assert!(
                matches!(
                    refusal(outcome),
                    Refusal::Budget(BudgetRefusal::Exceeded { .. })
                ),
                "{row}"
            );
            assert_eq!(
                (ledger.allocated.value(), ledger.debt.value()),
                (start.allocated, start.debt),
                "{row}"
            );
            continue;
        };
        let FundReply::Funded {
            allocated: allocation,
            remaining: rest,
            debt: owed,
            spent: charged,
            ..
        } = outcome.expect("funded");
        let figures = (
            ledger.allocated.value(),
            ledger.spent.value(),
            ledger.debt.value(),
            ledger.remaining.value(),
            ledger.is_over_limit,
        );
        assert_eq!(figures, (allocated, spent, debt, remaining, over), "{row}");
        assert_eq!(ledger.reserved.value(), start.reserved, "{row}");
        assert_eq!(
            remaining,
            allocated - spent - ledger.reserved.value() - debt,
            "{row}"
        );
        let emitted = [allocation, charged, owed, rest].map(|moved| moved.new);
        assert_eq!(emitted, [allocated, spent, debt, remaining], "{row}");
        assert_eq!(allocation.previous, start.allocated, "{row}");
        assert_eq!(
            (charged.previous, owed.previous),
            (start.spent, start.debt),
            "{row}"
        );
        let key = fixture.budget_key("acme", ROOT);
        let base: (i64, i64) = fixture
            .redis()
            .run(&["HMGET", &key, "base_spent", "base_debt"]);
        assert_eq!(base, (spent - start.spent, debt - start.debt), "{row}");
    }
}

#[tokio::test]
async fn figures_are_exact_to_the_end_of_the_range() {
    let fixture = fixture(Start {
        allocated: i64::MAX,
        spent: 0,
        reserved: 0,
        debt: 0,
        limit: 0,
    })
    .await;
    assert_eq!(
        refusal(fund(&fixture, &by(Credit, 1)).await),
        refused_budget(BudgetRefusal::OutOfRange, ROOT)
    );
    assert_eq!(
        refusal(fund(&fixture, &by(RepayDebt, 1)).await),
        refused_budget(BudgetRefusal::OutOfRange, ROOT)
    );
    assert_eq!(fixture.ledger(ROOT).await.allocated.value(), i64::MAX);
    fund(&fixture, &by(Debit, 1)).await.expect("debited");
    assert_eq!(fixture.ledger(ROOT).await.remaining.value(), i64::MAX - 1);
    fund(&fixture, &spent(i64::MAX, 9_007_199_254_740_993))
        .await
        .expect("reset");
    let ledger = fixture.ledger(ROOT).await;
    assert_eq!(
        (ledger.spent.value(), ledger.remaining.value()),
        (9_007_199_254_740_993, i64::MAX - 9_007_199_254_740_993)
    );
    fund(&fixture, &spent(0, i64::MAX)).await.expect("reset");
    assert_eq!(fixture.ledger(ROOT).await.remaining.value(), -i64::MAX);
    set(
        &fixture,
        Start {
            allocated: 10,
            spent: 0,
            reserved: 5,
            debt: 0,
            limit: 0,
        },
    );
    for (allocated, spent_before) in [(0, i64::MAX), (i64::MAX, i64::MAX - 4)] {
        assert_eq!(
            refusal(fund(&fixture, &spent(allocated, spent_before)).await),
            refused_budget(BudgetRefusal::OutOfRange, ROOT)
        );
    }
    assert_eq!(fixture.ledger(ROOT).await.remaining.value(), 5);
    // The hold can be charged.
    fund(&fixture, &spent(i64::MAX, i64::MAX - 5))
        .await
        .expect("reset");
}

#[tokio::test]
async fn repaying_down_to_the_limit_emits_its_end_once() {
    let fixture = fixture(B).await;
    fund(&fixture, &by(Credit, 0)).await.expect("credited");
    fund(&fixture, &by(RepayDebt, 100)).await.expect("repaid");
    fund(&fixture, &by(RepayDebt, 100)).await.expect("repaid");
    let types = fixture.event_types("acme");
    assert_eq!(
        types[2..],
        [
            "budget.funded",
            "budget.debt_repaid",
            "budget.over_limit_exited",
            "budget.debt_repaid"
        ]
    );
    let exited = &fixture.events("acme")[4];
    assert_eq!(
        exited["data"],
        serde_json::json!({"scope": ROOT, "unit": "TOKENS", "debt": 500, "overdraft_limit": 500,
            "is_over_limit": false, "debt_utilization": 1.0})
    );
    assert!(
        exited["correlation_id"]
            .as_str()
            .expect("a cluster")
            .starts_with("runtime:")
    );
    assert_eq!(
        exited["request_id"],
        fixture.events("acme")[3]["request_id"]
    );
}

#[tokio::test]
async fn funding_crosses_thresholds_both_ways() {
    let start = Start {
        allocated: 1_000,
        spent: 700,
        reserved: 100,
        debt: 0,
        limit: 0,
    };
    let fixture = fixture(Start {
        spent: 600,
        ..start
    })
    .await;
    fund(&fixture, &by(Debit, 200)).await.expect("debited"); // 700 of 800
    fund(&fixture, &by(Reset, 700)).await.expect("reset"); // 700 of 700
    fund(&fixture, &by(Credit, 9_300)).await.expect("credited"); // 700 of 10,000
    fund(&fixture, &by(Reset, 0)).await.expect("reset"); // of nothing: not judged
    fund(&fixture, &by(Credit, 100)).await.expect("credited");
    let crossed: Vec<_> = fixture
        .events("acme")
        .iter()
        .filter(|event| event["event_type"] == "budget.threshold_crossed")
        .map(|event| {
            (
                event["data"]["threshold"].as_f64().expect("a number"),
                event["data"]["direction"].clone(),
            )
        })
        .collect();
    let expected = [
        (0.8, "rising"),
        (0.95, "rising"),
        (1.0, "rising"),
        (1.0, "falling"),
        (0.95, "falling"),
        (0.8, "falling"),
    ];
    assert_eq!(
        crossed,
        expected.map(|(threshold, direction)| (threshold, direction.into()))
    );
    assert!(
        !fixture
            .event_types("acme")
            .contains(&"budget.exhausted".to_owned())
    );
}
