//! An agent with a budget, by the published client `runcycles`, in the dialect `cycles`.
//!
//!     export CYCLES_BASE_URL=… CYCLES_API_KEY=… CYCLES_TENANT=demo     # as `make run ARGS='--dialect cycles …'` prints them
//!     cargo run --manifest-path examples/rust/Cargo.toml

use std::time::Duration;

use runcycles::models::*;
use runcycles::{CyclesClient, CyclesConfig, Error};

/// Sends a request. After a lost response the outcome is unknown, so the same goes out again: the idempotency key in it
/// makes sure that it has one effect.
async fn sent<T>(request: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    for attempt in 0..4 {
        match request().await {
            Err(lost) if lost.is_retryable() => {
                tokio::time::sleep(Duration::from_millis(200 << attempt)).await;
            }
            outcome => return outcome,
        }
    }
    request().await
}

fn reservation(estimate: i64) -> ReservationCreateRequest {
    let subject = Subject {
        tenant: Some("demo".into()),
        app: Some("chat".into()),
        agent: Some("helper".into()),
        ..Subject::default()
    };
    ReservationCreateRequest::builder()
        .subject(subject)
        .action(Action::new("llm.completion", "any-model"))
        .estimate(Amount::usd_microcents(estimate))
        .ttl_ms(10_000)
        .build()
}

/// Half a cent for a step that streams.
async fn streaming_step(client: &CyclesClient) -> Result<(), Error> {
    let request = reservation(500_000);
    let made = sent(async || client.create_reservation(&request).await).await?;
    let id = made.reservation_id.expect("not a dry run");
    println!("reserved {}", made.reserved.expect("a hold").amount);
    let again = sent(async || client.create_reservation(&request).await).await?;
    assert_eq!(again.reservation_id, Some(id.clone()));
    println!("the same request again: the same reservation");
    // The hold lasts ten seconds. A stream extends it as long as it needs; the guard of `client.reserve` does so by itself.
    for _chunk in 0..3 {
        let extend = ExtendRequest::new(10_000);
        sent(async || client.extend_reservation(&id, &extend).await).await?;
    }
    println!("extended 3 times");
    // It was cheaper than estimated: the rest returns.
    let commit = CommitRequest::builder()
        .actual(Amount::usd_microcents(320_000))
        .build();
    let done = sent(async || client.commit_reservation(&id, &commit).await).await?;
    let released = done.released.expect("a rest").amount;
    println!("committed {}; {released} returned", done.charged.amount);
    Ok(())
}

/// What the budget has left pays for the overage. The response may be lost here too.
async fn dearer_step(client: &CyclesClient) -> Result<(), Error> {
    let request = reservation(500_000);
    let made = sent(async || client.create_reservation(&request).await).await?;
    let id = made.reservation_id.expect("not a dry run");
    let commit = CommitRequest::builder()
        .actual(Amount::usd_microcents(650_000))
        .build();
    let done = sent(async || client.commit_reservation(&id, &commit).await).await?;
    let again = sent(async || client.commit_reservation(&id, &commit).await).await?;
    assert_eq!(done.charged, again.charged);
    println!("a commit above its hold: {} charged", done.charged.amount);
    Ok(())
}

/// Nothing is held, and nothing is done: a denial is final.
async fn denied_step(client: &CyclesClient) -> Result<(), Error> {
    match client.reserve(reservation(60_000_000_000)).await {
        Ok(_guard) => panic!("there is not so much"),
        Err(denied) if denied.is_budget_exceeded() => {
            println!("denied: BUDGET_EXCEEDED; the agent stops");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = CyclesClient::new(CyclesConfig::from_env()?);
    streaming_step(&client).await?;
    dearer_step(&client).await?;
    denied_step(&client).await
}
