//! Makes requests go together: while one call is in flight, theirs wait in the order in which they are made, and all go in one call.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use budget_authority::domain::amount::{Amount, Unit};
use budget_authority::domain::api_key::secret::ApiKeyText;
use budget_authority::domain::caller::RuntimeCaller;
use budget_authority::domain::ids::{ReservationId, TenantId};
use budget_authority::domain::refusal::{AccessRefusal, Refusal};
use budget_authority::domain::reservation::{CommitRequest, DecisionRequest};
use budget_authority::store::{BatchLimits, ExtraRoundTrip, Store, StoreError};
use tokio::task::unconstrained;

use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::{patient, store_with};
use crate::runtime::model::sides::{action, hashed, key, subject};

/// A request, or another one that it is to be made with.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The scripts of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batch {
    /// Reserves, decisions, usage events.
    Create,
    /// Commits, releases, extensions.
    Change,
}

/// One call in flight, and no lone one as a batch.
pub fn one_call() -> BatchLimits {
    BatchLimits {
        in_flight: 1,
        ..BatchLimits::default()
    }
}

/// A store that has one call in flight for a slot.
pub fn one_in_flight(url: &str) -> Store {
    let mut options = patient(url);
    options.batches = one_call();
    store_with(options)
}

/// `acme` and another tenant of its partition, on such a store.
pub async fn two_tenants_of_a_partition(url: &str) -> LedgerFixture {
    two_tenants_on(one_in_flight(url)).await
}

/// The same on a store of the test's choice.
pub async fn two_tenants_on(store: Store) -> LedgerFixture {
    let mut fixture = LedgerFixture::of_tenant(store, "acme").await;
    let partition = fixture.callers[0].partition;
    let of_partition =
        |name: &String| TenantId::parse(name).expect("an id").partition() == partition;
    let mut names = (0..).map(|number| format!("bolt{number}"));
    let name = names.find(of_partition).expect("one of them");
    fixture.add_tenant(&name).await;
    // Ids are made from it.
    fixture.store.secret().await.expect("it runs");
    fixture
}

/// How many calls were made a second time, for whatever reason.
pub fn repeated(fixture: &LedgerFixture) -> u64 {
    let counts = &fixture.store.metrics().extra_round_trips;
    let reasons = ExtraRoundTrip::ALL.iter().filter(|reason| {
        // A node that does not know the script yet has not run it.
        !matches!(reason, ExtraRoundTrip::NoScript | ExtraRoundTrip::FirstUse)
    });
    let count = |reason: &ExtraRoundTrip| counts.with_label_values(&[reason.as_str()]).get();
    reasons.map(count).sum()
}

/// How many batches have gone, and how many members they had.
pub fn batches(fixture: &LedgerFixture) -> (u64, u64) {
    let members = &fixture.store.metrics().batch_members;
    (members.get_sample_count(), members.get_sample_sum() as u64)
}

/// Makes requests of one partition as one batch, in this order. They must need no call before the one that the batch has.
pub async fn together<T: Send>(
    fixture: &LedgerFixture,
    batch: Batch,
    calls: Vec<Call<'_, T>>,
) -> Vec<T> {
    let (count, repeats) = (calls.len() as u64, repeated(fixture));
    let (replies, sent) = in_batches(fixture, batch, calls).await;
    if repeats == repeated(fixture) {
        assert_eq!(sent, (1, count), "batches and their members");
    }
    replies
}

/// The same for more requests than a batch may have. Also how many batches went, and how many members they had.
pub async fn in_batches<T: Send>(
    fixture: &LedgerFixture,
    batch: Batch,
    calls: Vec<Call<'_, T>>,
) -> (Vec<T>, (u64, u64)) {
    let first = in_flight(fixture, batch).await;
    let before = batches(fixture);
    let calls = calls.into_iter().map(|call| {
        let call: Call<'_, Option<T>> = Box::pin(async { Some(call.await) });
        call
    });
    let first: Call<'_, Option<T>> = Box::pin(async {
        first.await;
        None
    });
    let replies = in_order(calls.chain([first]).collect()).await;
    let after = batches(fixture);
    let sent = (after.0 - before.0, after.1 - before.1);
    (replies.into_iter().flatten().collect(), sent)
}

/// A call that is in flight until it is polled again. It changes nothing.
async fn in_flight(fixture: &LedgerFixture, batch: Batch) -> Call<'_, ()> {
    // A batch has its place for a moment longer than its members wait.
    loop {
        let before = batches(fixture);
        refused(fixture, batch).await;
        if before == batches(fixture) {
            break;
        }
    }
    loop {
        let mut call: Call<'_, ()> = Box::pin(refused(fixture, batch));
        let begun = poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
        if unconstrained(begun).await.is_pending() {
            return call;
        }
    }
}

/// A call that is refused as soon as it looks at its API key, so that it changes nothing.
async fn refused(fixture: &LedgerFixture, batch: Batch) {
    let caller = RuntimeCaller {
        key_hash: ApiKeyText::generate("sk_live_", fixture.callers[0].partition).hash(),
        ..fixture.callers[0].clone()
    };
    let (cause, amount) = (fixture.cause(0), Amount::new(Unit::Tokens, 1));
    let amount = amount.expect("not negative");
    let refused = match batch {
        Batch::Create => {
            let request = DecisionRequest {
                idempotency_key: key(0),
                subject: subject(fixture, 0, 0).0,
                action: action("tenant:acme"),
                estimate: amount,
                metadata: None,
            };
            let request = hashed(request, "");
            let result = fixture.ledger.decide(&caller, &request, &cause).await;
            result.err()
        }
        Batch::Change => {
            let request = CommitRequest {
                idempotency_key: key(0),
                actual: amount,
                metrics: None,
                metadata: None,
            };
            let (request, secret) = (hashed(request, ""), fixture.store.secret().await);
            let id = ReservationId::derive(secret.expect("it runs"), &caller.tenant, &key(0));
            let result = fixture.ledger.commit(&caller, &id, &request, &cause).await;
            result.err()
        }
    };
    let is_refused = matches!(
        refused,
        Some(StoreError::Refusal(Refusal::Access(
            AccessRefusal::Unauthorized(_)
        )))
    );
    assert!(is_refused, "{refused:?}");
}

/// Polls the futures in this order, so that each comes as far as it can before the next begins.
pub async fn in_order<T>(mut calls: Vec<Call<'_, T>>) -> Vec<T> {
    let mut replies: Vec<Option<T>> = calls.iter().map(|_| None).collect();
    let all = poll_fn(|context| {
        for (call, reply) in calls.iter_mut().zip(&mut replies) {
            if reply.is_none()
                && let Poll::Ready(found) = call.as_mut().poll(context)
            {
                *reply = Some(found);
            }
        }
        match replies.iter().all(Option::is_some) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    });
    // Otherwise Tokio would suspend a future that has done much, although it has nothing to wait for.
    unconstrained(all).await;
    replies.into_iter().flatten().collect()
}
