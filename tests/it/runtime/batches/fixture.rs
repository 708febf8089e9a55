//! Batches that do what their operations can do: events, debts, denials, evidence, counts of bytes, graces of their own.

use budget_authority::domain::amount::Unit;
use serde_json::json;
use tokio::task::block_in_place;

use super::calls::{Calls, Reply, attesting, words};
use super::captured::{Captured, Captures};
use super::together::{Batch, Call, together, two_tenants_of_a_partition};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::redis::RedisServer;
use crate::harness::runtime_calls::with;

const ROOT: &str = "tenant:acme";
const SCOPE: &str = "tenant:acme/workspace:w";

/// A server with the data before a batch, and the call of the batch.
pub struct BatchFixture {
    pub server: RedisServer,
    pub fixture: LedgerFixture,
    pub captured: Captured,
}

impl BatchFixture {
    pub async fn of(batch: Batch) -> Self {
        let server = block_in_place(RedisServer::start);
        let captures = Captures::before(&server);
        let mut fixture = two_tenants_of_a_partition(&captures.url()).await;
        fixture.ledger = attesting(fixture.ledger.clone());
        let other = format!("tenant:{}", fixture.callers[1].tenant);
        fixture.budget_of(0, ROOT, 1_000).await;
        fixture.seed(0, SCOPE, Unit::Tokens, 100, 50).await;
        fixture.budget_of(1, &other, 1_000).await;
        let [acme, bolt] = [0, 1].map(|tenant| Calls {
            fixture: &fixture,
            tenant,
        });
        let large = || json!({"metadata": {"note": "x".repeat(600)}});
        let overdraft = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
        let graceless = json!({"grace_period_ms": 0});
        let none = || json!({});
        // Tests repeat the batch for minutes on a slow machine.
        let lasting = |more| with(json!({"ttl_ms": 3_600_000}), more);
        for (key, amount, more) in [
            ("a", 30, none()),
            ("b", 30, with(overdraft.clone(), graceless.clone())),
            ("c", 20, graceless.clone()),
            ("d", 10, none()),
        ] {
            let made = acme.reserve(key, SCOPE, amount, lasting(more)).await;
            assert!(made.is_ok(), "{key}: {made:?}");
        }
        let made = bolt.reserve("e", &other, 10, lasting(none())).await;
        made.expect("held");
        let partition = fixture.callers[0].partition;
        let keys = fixture.store.keys();
        let ledger = keys.budget(partition, "acme", "TOKENS", SCOPE);
        let calls: Vec<Call<'_, Reply>> = match batch {
            Batch::Create => {
                for key in ["a", "b", "c"] {
                    acme.release(key).await.expect("released");
                }
                fixture.set(&ledger, &[("announced", "")]).await;
                let over = with(large(), overdraft);
                vec![
                    acme.reserve("f", SCOPE, 10, none()),
                    acme.reserve("g", SCOPE, 61, with(large(), graceless)),
                    acme.charge("h", SCOPE, 30, over),
                    acme.decide("i", SCOPE, 5),
                    acme.reserve("j", SCOPE, 5, none()),
                    bolt.decide("k", &other, 5),
                    bolt.reserve("l", &other, 10, none()),
                ]
            }
            Batch::Change => {
                // So long ago that a fall is announced.
                let announced = [("announced", "800000 1000 0")];
                fixture.set(&ledger, &announced).await;
                vec![
                    acme.extend("a", large()),
                    acme.commit("d", 5, none()),
                    acme.release("c"),
                    acme.commit("b", 70, large()),
                    bolt.release("e"),
                ]
            }
        };
        let replies = together(&fixture, batch, calls).await;
        let kept = ["Script"; 7][..replies.len()].join(" ");
        assert_eq!(words(&replies), kept, "the batch is kept");
        Self {
            captured: captures.one(),
            fixture,
            server,
        }
    }
}
