//! A step that is a request of the runtime plane, and what the service responds.

use budget_authority::domain::amount::{Amount, Unit};
use budget_authority::domain::caller::Caller;
use budget_authority::domain::ids::ReservationId;
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::HashedRequest;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::refusal::Denial;
use budget_authority::domain::reservation::{
    CommitRequest, DecisionRequest, ReleaseRequest, ReservationCreateRequest,
};
use budget_authority::evidence::{Endpoint, attested_request};
use budget_authority::ledger::{EventCreateRequest, ReservationExtendRequest};

use serde_json::json;

use super::draw::{Step, UNITS};
use super::pure::{Model, Outcome};
use super::sides::{action, amount_of, charged, hashed, key, pick, refused, subject};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::runtime_calls::{ask_body, with};

/// See the module documentation.
pub struct Request<'a> {
    pub(super) fixture: &'a LedgerFixture,
    pub(super) step: Step,
    pub(super) tenant: usize,
    pub(super) unit: Unit,
    /// The reservation that it is about: its place in the model, and its id.
    pub(super) about: Option<(usize, ReservationId)>,
    /// What the service tells requests under one idempotency key apart by.
    pub(super) payload: String,
}

impl<'a> Request<'a> {
    /// None where there is no reservation that it could be about.
    pub async fn of(fixture: &'a LedgerFixture, model: &Model, step: &Step) -> Option<Self> {
        let (mut about, path) = (None, |tenant, place| subject(fixture, tenant, place).1);
        let (tenant, unit, payload) = match step.clone() {
            Step::Reserve {
                tenant,
                place,
                unit,
                amount,
                policy,
                dry,
                ..
            } => {
                let payload = format!("{} {amount} {policy} {dry}", path(tenant, place));
                (tenant, UNITS[unit], payload)
            }
            Step::Decide {
                tenant,
                place,
                unit,
                amount,
                ..
            } => {
                let payload = format!("{} {amount}", path(tenant, place));
                (tenant, UNITS[unit], payload)
            }
            Step::Post {
                tenant,
                place,
                unit,
                actual,
                policy,
                ..
            } => {
                let payload = format!("{} {actual} {policy}", path(tenant, place));
                (tenant, UNITS[unit], payload)
            }
            Step::Commit { which, .. }
            | Step::Release { which, .. }
            | Step::Extend { which, .. } => {
                let (index, tenant, id) = pick(fixture, model, which).await?;
                let held = model.held[index].unit;
                about = Some((index, id));
                match *step {
                    Step::Commit { unit, actual, .. } => {
                        let other = UNITS[usize::from(held == UNITS[0])];
                        let unit = if unit == 0 { held } else { other };
                        (tenant, unit, format!("commit {actual}"))
                    }
                    Step::Release { .. } => (tenant, held, "release".to_owned()),
                    _ => (tenant, held, "extend".to_owned()),
                }
            }
            other => panic!("not a request: {other:?}"),
        };
        Some(Self {
            fixture,
            step: step.clone(),
            tenant,
            unit,
            about,
            payload: format!("{unit} {payload}"),
        })
    }

    /// What the service responds.
    pub async fn respond(&self) -> Outcome {
        match self.step {
            Step::Reserve { .. } => self.reserve().await,
            Step::Decide { .. } => self.decide().await,
            Step::Post { .. } => self.post().await,
            Step::Commit { .. } => self.commit().await,
            Step::Release { .. } => self.release().await,
            _ => self.extend().await,
        }
    }

    async fn reserve(&self) -> Outcome {
        let Step::Reserve {
            place,
            amount,
            policy,
            key: number,
            dry,
            ..
        } = self.step
        else {
            unreachable!("a reserve")
        };
        let (fixture, tenant) = (self.fixture, self.tenant);
        let request = ReservationCreateRequest {
            idempotency_key: key(number),
            action: action(&subject(fixture, tenant, place).1),
            subject: subject(fixture, tenant, place).0,
            estimate: amount_of(self.unit, amount),
            ttl_ms: None,
            grace_period_ms: 5_000,
            overage_policy: OveragePolicy::ALL.get(policy).copied(),
            dry_run: dry,
            metadata: None,
            observe_mode: None,
        };
        let request = self.hashed(Some(Endpoint::Reserve), request);
        let (caller, cause) = (&fixture.callers[tenant], fixture.cause(tenant));
        match fixture.ledger.reserve(caller, &request, &cause).await {
            Ok(reserved) => match reserved.reason_code {
                Some(reason) => denied(&reason),
                None => charged(0, &reserved.balances.expect("allowed")),
            },
            Err(error) => refused(error),
        }
    }

    async fn decide(&self) -> Outcome {
        let Step::Decide {
            place,
            amount,
            key: number,
            ..
        } = self.step
        else {
            unreachable!("a decision")
        };
        let (fixture, tenant) = (self.fixture, self.tenant);
        let request = DecisionRequest {
            idempotency_key: key(number),
            action: action(&subject(fixture, tenant, place).1),
            subject: subject(fixture, tenant, place).0,
            estimate: amount_of(self.unit, amount),
            metadata: None,
        };
        let request = self.hashed(Some(Endpoint::Decide), request);
        let (caller, cause) = (&fixture.callers[tenant], fixture.cause(tenant));
        let result = fixture.ledger.decide(caller, &request, &cause).await;
        match result.map(|decided| decided.reason_code) {
            Ok(None) => Outcome::Extended,
            Ok(Some(reason)) => denied(&reason),
            Err(error) => refused(error),
        }
    }

    async fn post(&self) -> Outcome {
        let Step::Post {
            place,
            actual,
            policy,
            key: number,
            ..
        } = self.step
        else {
            unreachable!("a usage event")
        };
        let (fixture, tenant) = (self.fixture, self.tenant);
        let request = EventCreateRequest {
            idempotency_key: key(number),
            action: action(&subject(fixture, tenant, place).1),
            subject: subject(fixture, tenant, place).0,
            actual: amount_of(self.unit, actual),
            overage_policy: OveragePolicy::ALL.get(policy).copied(),
            metrics: None,
            client_time_ms: None,
            metadata: None,
        };
        let request = self.hashed(None, request);
        let (caller, cause) = (&fixture.callers[tenant], fixture.cause(tenant));
        match fixture.ledger.charge(caller, &request, &cause).await {
            Ok(posted) => charged(
                posted.charged.map_or(actual, Amount::value),
                &posted.balances,
            ),
            Err(error) => refused(error),
        }
    }

    async fn commit(&self) -> Outcome {
        let (Step::Commit { actual, .. }, Some((_, id))) = (&self.step, &self.about) else {
            unreachable!("a commit")
        };
        let (fixture, tenant) = (self.fixture, self.tenant);
        let request = CommitRequest {
            idempotency_key: key(self.key_number()),
            actual: amount_of(self.unit, *actual),
            metrics: None,
            metadata: None,
        };
        let request = self.hashed(Some(Endpoint::Commit), request);
        let (caller, cause) = (&fixture.callers[tenant], fixture.cause(tenant));
        match fixture.ledger.commit(caller, id, &request, &cause).await {
            Ok(committed) => charged(committed.charged.value(), &committed.balances),
            Err(error) => refused(error),
        }
    }

    async fn release(&self) -> Outcome {
        let (_, id) = self.about.as_ref().expect("a reservation");
        let (fixture, tenant) = (self.fixture, self.tenant);
        let request = ReleaseRequest {
            idempotency_key: key(self.key_number()),
            reason: None,
        };
        let request = self.hashed(Some(Endpoint::Release), request);
        let caller = Caller::Tenant(fixture.callers[tenant].clone());
        let cause = fixture.cause(tenant);
        match fixture.ledger.release(&caller, id, &request, &cause).await {
            Ok(released) => charged(released.released.value(), &released.balances),
            Err(error) => refused(error),
        }
    }

    async fn extend(&self) -> Outcome {
        let (_, id) = self.about.as_ref().expect("a reservation");
        let fixture = self.fixture;
        let request = ReservationExtendRequest {
            idempotency_key: key(self.key_number()),
            extend_by_ms: 1_000,
            metadata: None,
        };
        let request = self.hashed(None, request);
        let caller = &fixture.callers[self.tenant];
        match fixture
            .ledger
            .extend(caller, id, &request, &fixture.cause(self.tenant))
            .await
        {
            Ok(_) => Outcome::Extended,
            Err(error) => refused(error),
        }
    }

    /// With what evidence attests of it, where the ledger of the fixture attests.
    fn hashed<T>(&self, endpoint: Option<Endpoint>, request: T) -> HashedRequest<T> {
        let endpoint = endpoint.filter(|_| self.fixture.ledger.attests());
        HashedRequest {
            attested: endpoint.map(|endpoint| attested_request(endpoint, &self.body())),
            ..hashed(request, &self.payload)
        }
    }

    /// The body that evidence attests.
    fn body(&self) -> Json {
        let key = format!("key-{}", self.key_number());
        let amount = |amount| json!({"unit": self.unit.as_str(), "amount": amount});
        let ask = |place, estimate| {
            let scope = subject(self.fixture, self.tenant, place).1;
            with(
                ask_body(&key, &scope, 0),
                json!({"estimate": amount(estimate)}),
            )
        };
        let body = match self.step {
            Step::Reserve {
                place, amount, dry, ..
            } => with(ask(place, amount), json!({"dry_run": dry})),
            Step::Decide { place, amount, .. } => ask(place, amount),
            Step::Commit { actual, .. } => {
                json!({"idempotency_key": key, "actual": amount(actual)})
            }
            _ => json!({"idempotency_key": key}),
        };
        Json::parse(body.to_string().as_bytes()).expect("JSON")
    }

    pub(super) fn key_number(&self) -> usize {
        match self.step {
            Step::Reserve { key, .. }
            | Step::Decide { key, .. }
            | Step::Post { key, .. }
            | Step::Commit { key, .. }
            | Step::Release { key, .. }
            | Step::Extend { key, .. } => key,
            ref other => panic!("not a request: {other:?}"),
        }
    }
}

fn denied(reason_code: &str) -> Outcome {
    let denial = Denial::parse(reason_code).expect("a known reason");
    Outcome::Deny(denial.as_str())
}
