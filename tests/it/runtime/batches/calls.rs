//! Requests of tenants as the service makes them from JSON, without HTTP between, so that a test decides their order.

use budget_authority::domain::caller::{Caller, RuntimeCaller};
use budget_authority::domain::cause::Cause;
use budget_authority::domain::fields::Read;
use budget_authority::domain::ids::{IdempotencyKey, ReservationId};
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::{HashedRequest, PayloadHash};
use budget_authority::evidence::{Endpoint, Issuing, attested_request};
use budget_authority::ledger::Ledger;
use budget_authority::store::StoreError;
use serde::Serialize;
use serde_json::{Value, json};

use super::together::Call;
use crate::harness::evidence_keys::{issuers, listed};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::runtime_calls::{ask_body, event_body, tokens, with};

/// A response, or why there is none.
pub type Reply = Result<Value, StoreError>;

/// The first word of a refusal, or what else a test compares: a status, a decision.
pub fn word(reply: &Reply) -> String {
    match reply {
        Ok(response) => {
            let told = response.get("status").or(response.get("decision"));
            told.and_then(Value::as_str).unwrap_or("?").to_owned()
        }
        Err(StoreError::Refusal(refusal) | StoreError::Attested(refusal, _)) => {
            let text = format!("{refusal:?}");
            // `Reservation(Denied { denial: BudgetExceeded, …`
            let words = text.split(|letter: char| !letter.is_alphanumeric());
            let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
            match words[..] {
                [_, "Denied", "denial", reason, ..] => reason.to_owned(),
                [_, why, ..] => why.to_owned(),
                _ => text,
            }
        }
        Err(error) => {
            let text = format!("{error:?}");
            let end = text.find(|letter: char| !letter.is_alphanumeric());
            text[..end.unwrap_or(text.len())].to_owned()
        }
    }
}

/// The words of replies.
pub fn words(replies: &[Reply]) -> String {
    let words: Vec<_> = replies.iter().map(word).collect();
    words.join(" ")
}

/// Requests of one tenant.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    pub fixture: &'a LedgerFixture,
    pub tenant: usize,
}

/// A ledger with evidence, and with a count of the bytes that requests store.
pub fn attesting(ledger: Ledger) -> Ledger {
    let issuing = Issuing::new(issuers(&[listed('a', 0, None)]));
    ledger
        .attesting(Some(issuing), None)
        .stored_bytes_per_minute(1_000_000)
}

impl<'a> Calls<'a> {
    /// Reserves on a scope, with further members.
    pub fn reserve(self, key: &str, scope: &str, amount: i64, more: Value) -> Call<'a, Reply> {
        let body = with(ask_body(key, scope, amount), more);
        Box::pin(async move {
            let (caller, cause) = self.parties();
            let request = self.hashed(Endpoint::Reserve, &body);
            let ledger = &self.fixture.ledger;
            response(ledger.reserve(caller, &request, &cause).await)
        })
    }

    /// Asks for a decision on a scope.
    pub fn decide(self, key: &str, scope: &str, amount: i64) -> Call<'a, Reply> {
        let body = ask_body(key, scope, amount);
        Box::pin(async move {
            let (caller, cause) = self.parties();
            let request = self.hashed(Endpoint::Decide, &body);
            response(self.fixture.ledger.decide(caller, &request, &cause).await)
        })
    }

    /// Posts a usage event on a scope, with further members.
    pub fn charge(self, key: &str, scope: &str, amount: i64, more: Value) -> Call<'a, Reply> {
        let body = with(event_body(key, scope, amount), more);
        Box::pin(async move {
            let (caller, cause) = self.parties();
            let request = self.hashed(Endpoint::Decide, &body);
            response(self.fixture.ledger.charge(caller, &request, &cause).await)
        })
    }

    /// Commits the reservation that was made under the key `of`, with further members.
    pub fn commit(self, of: &str, amount: i64, more: Value) -> Call<'a, Reply> {
        let body = json!({"idempotency_key": "end", "actual": tokens(amount)});
        let (body, of) = (with(body, more), of.to_owned());
        Box::pin(async move {
            let ((caller, cause), id) = (self.parties(), self.id(&of).await);
            let request = self.hashed(Endpoint::Commit, &body);
            let ledger = &self.fixture.ledger;
            response(ledger.commit(caller, &id, &request, &cause).await)
        })
    }

    /// Releases the reservation that was made under the key `of`.
    pub fn release(self, of: &str) -> Call<'a, Reply> {
        let (body, of) = (json!({"idempotency_key": "end"}), of.to_owned());
        Box::pin(async move {
            let ((caller, cause), id) = (self.parties(), self.id(&of).await);
            let request = self.hashed(Endpoint::Release, &body);
            let caller = Caller::Tenant(caller.clone());
            let ledger = &self.fixture.ledger;
            response(ledger.release(&caller, &id, &request, &cause).await)
        })
    }

    /// Extends the reservation that was made under the key `of` by a second, with further members.
    pub fn extend(self, of: &str, more: Value) -> Call<'a, Reply> {
        let body = json!({"idempotency_key": "extend", "extend_by_ms": 1_000});
        let (body, of) = (with(body, more), of.to_owned());
        Box::pin(async move {
            let ((caller, cause), id) = (self.parties(), self.id(&of).await);
            let request = self.hashed(Endpoint::Commit, &body);
            response(
                self.fixture
                    .ledger
                    .extend(caller, &id, &request, &cause)
                    .await,
            )
        })
    }

    /// The reservation that is made under a key.
    pub async fn id(self, key: &str) -> ReservationId {
        let secret = self.fixture.store.secret().await.expect("it runs");
        let key = IdempotencyKey::parse(key).expect("a key");
        ReservationId::derive(secret, &self.fixture.callers[self.tenant].tenant, &key)
    }

    fn parties(self) -> (&'a RuntimeCaller, Cause) {
        let caller = &self.fixture.callers[self.tenant];
        (caller, self.fixture.cause(self.tenant))
    }

    fn hashed<T: Read>(self, endpoint: Endpoint, body: &Value) -> HashedRequest<T> {
        let text = body.to_string();
        let json = Json::parse(text.as_bytes()).expect("JSON");
        let attests = self.fixture.ledger.attests();
        HashedRequest {
            payload_hash: PayloadHash::of_body(&json),
            attested: attests.then(|| attested_request(endpoint, &json)),
            request: T::parse_json(&text).expect("a request"),
        }
    }
}

fn response<T: Serialize>(result: Result<T, StoreError>) -> Reply {
    result.map(|response| serde_json::to_value(response).expect("JSON"))
}
