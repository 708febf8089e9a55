//! A replica that could not read the registry of keys for minutes attests nothing: another key may have taken over.

use std::time::Duration;

use budget_authority::domain::fields::Read as _;
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::{HashedRequest, PayloadHash};
use budget_authority::domain::reservation::{DecisionRequest, DecisionResponse};
use budget_authority::evidence::{Endpoint, Issuing, attested_request};
use prometheus::Registry;
use prometheus::proto::MetricFamily;

use crate::harness::eventually;
use crate::harness::evidence_keys::{issuers, listed};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::runtime_calls::ask_body;

const SCOPE: &str = "tenant:acme";

struct Replica {
    fixture: LedgerFixture,
    issuing: Issuing,
    metrics: Registry,
}

impl Replica {
    /// With the key `a`, which it believes in for so long after it was read.
    async fn new(believed_for: Duration) -> Self {
        let mut fixture = LedgerFixture::new().await;
        fixture.budget_of(0, SCOPE, 10).await;
        let issuing = Issuing::believing(issuers(&[listed('a', 0, None)]), believed_for);
        let (ledger, metrics) = (fixture.ledger.clone(), Registry::new());
        fixture.ledger = ledger.attesting(Some(issuing.clone()), None);
        let registered = fixture.ledger.register(&metrics);
        registered.expect("names of its own");
        Self {
            fixture,
            issuing,
            metrics,
        }
    }

    async fn decide(&self, key: &str) -> DecisionResponse {
        let body = ask_body(key, SCOPE, 1).to_string();
        let json = || Json::parse(body.as_bytes()).expect("JSON");
        let body = HashedRequest {
            payload_hash: PayloadHash::of_body(&json()),
            attested: Some(attested_request(Endpoint::Decide, &json())),
            request: DecisionRequest::parse_json(&body).expect("a request"),
        };
        let (caller, cause) = (&self.fixture.callers[0], self.fixture.cause(0));
        let decided = self.fixture.ledger.decide(caller, &body, &cause).await;
        decided.expect("a decision")
    }

    /// How many entries of evidence there are, and how many decisions were counted to have none.
    async fn counted(&self) -> (i64, f64) {
        let partition = self.fixture.callers[0].partition;
        let stream = self.fixture.store.keys().unsigned(partition);
        let queued = self.fixture.run(&["XLEN", &stream]).await;
        let families = self.metrics.gather();
        let skipped = |family: &&MetricFamily| family.name() == "budget_evidence_skipped_total";
        let skipped = families.iter().filter(skipped);
        let mut skipped = skipped.flat_map(|family| family.get_metric());
        let of_no_issuer = skipped.find(|one| one.get_label()[0].value() == "no_issuer");
        (
            queued,
            of_no_issuer.map_or(0.0, |one| one.get_counter().get_value()),
        )
    }
}

#[tokio::test]
async fn e20_a_replica_without_the_registry_for_long_attests_nothing() {
    let replica = Replica::new(Duration::from_secs(8)).await;
    let (store, run) = (&replica.fixture.store, &replica.fixture);
    let first = replica.decide("first").await.evidence;
    assert!(first.is_some());
    assert_eq!(replica.counted().await, (1, 0.0));

    let registry = store.keys().issuers();
    let kept: String = run.run(&["HGET", &registry, "1"]).await;
    run.run::<i64>(&["DEL", &registry]).await;
    run.run::<String>(&["SET", &registry, "x"]).await;
    eventually("the registry is old", || async {
        let refreshed = replica.issuing.refresh(store).await;
        assert!(refreshed.is_err(), "it cannot be read");
        replica.issuing.is_stale()
    })
    .await;
    assert_eq!(replica.decide("second").await.evidence, None);
    assert_eq!(replica.counted().await, (1, 1.0));
    // Earlier decisions keep their references, and the signer knows their issuer.
    assert_eq!(replica.decide("first").await.evidence, first);
    let known = replica.issuing.registry(store).await.expect("known");
    assert!(known.issuing_at(1, 0).is_some());

    run.run::<i64>(&["DEL", &registry]).await;
    replica
        .issuing
        .refresh(store)
        .await
        .expect("it can be read");
    assert!(replica.decide("third").await.evidence.is_some());
    assert_eq!(replica.counted().await, (2, 1.0));
    let restored: String = run.run(&["HGET", &registry, "1"]).await;
    assert_eq!(restored, kept);
}
