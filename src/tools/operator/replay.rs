//! `admin webhook replay`: asks for a replay and follows it.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::api::operations::OperationId;
use crate::domain::webhook::{DeliveryId, ReplayId, SubscriptionId};
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;
use crate::tools::output::Output;

/// Pause before the deliveries are counted again.
const PAUSE: Duration = Duration::from_millis(500);
/// By how much the clocks of this machine and of Redis may differ.
const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// Width of the bar.
const BAR: u64 = 30;

/// Asks for the replay, prints what was queued, and waits until each delivery has been attempted.
///
/// # Errors
/// [`CallError::Incomplete`] when a delivery failed for good.
pub(super) async fn run(
    replay: &Call,
    no_wait: bool,
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let since = Timestamp::now() - SKEW;
    let mut queued = client.send(replay).await?;
    // Its deliveries have the time of the request.
    let made = (since, Timestamp::now() + SKEW);
    if no_wait {
        return output.object(&queued);
    }
    let subscription = replay.id.as_deref().and_then(SubscriptionId::parse);
    let id = queued["replay_id"].as_str().and_then(ReplayId::parse);
    let (subscription, id) = subscription.zip(id).ok_or_else(|| client.unreadable())?;
    let events = queued["events_queued"].as_u64().unwrap_or(0);
    match events {
        0 => eprintln!("nothing to replay: no such event, or the webhook is not ACTIVE"),
        _ => eprintln!("{id}: {events} events are queued; a dispatcher sends them"),
    }
    let counts = follow(client, (&subscription, &id), events, made).await?;
    if let Some(members) = queued.as_object_mut() {
        members.remove("estimated_completion_seconds");
        let names = ["succeeded", "retrying", "failed"].map(str::to_owned);
        members.extend(names.into_iter().zip(counts.map(Value::from)));
    }
    output.object(&queued)?;
    match counts {
        [_, _, 0] => Ok(()),
        _ => Err(CallError::Incomplete(
            "some deliveries failed for good; `admin webhook deliveries` shows why",
        )),
    }
}

/// Waits for the first attempts of a replay; its deliveries that succeeded, are retried and failed for good.
async fn follow(
    client: &Client,
    (subscription, replay): (&SubscriptionId, &ReplayId),
    events: u64,
    (from, to): (Timestamp, Timestamp),
) -> Result<[u64; 3], CallError> {
    let deliveries = Call::to(OperationId::ListWebhookDeliveries, subscription.as_str())
        .with("from", Some(from))
        .with("to", Some(to));
    // The id of a delivery follows from event, subscription and replay.
    let is_of_replay = |row: &Value| {
        let event = row["event_id"].as_str().unwrap_or_default();
        let id = DeliveryId::of(subscription.partition(), event, subscription, Some(replay));
        row["delivery_id"] == id.as_str()
    };
    let has_terminal = std::io::stderr().is_terminal();
    loop {
        let rows = client.rows(&deliveries, None).await?;
        let count = |status: &str| {
            let rows = rows.iter().filter(|row| is_of_replay(row));
            rows.filter(|row| row["status"] == status).count() as u64
        };
        let counts = ["SUCCESS", "RETRYING", "FAILED"].map(count);
        let attempted = counts.iter().sum();
        let is_done = attempted >= events;
        if has_terminal {
            let end = if is_done { "\n" } else { "" };
            eprint!("\r{}{end}", line(attempted, events));
        }
        if is_done {
            return Ok(counts);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The bar on the terminal.
fn line(done: u64, all: u64) -> String {
    let full = (done * BAR).checked_div(all).unwrap_or(BAR);
    let cells = (0..BAR).map(|cell| if cell < full { '█' } else { '░' });
    let bar: String = cells.collect();
    format!("{bar}  {done} of {all} attempted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_with_the_attempts() {
        let empty = "░".repeat(30);
        assert_eq!(line(0, 10), format!("{empty}  0 of 10 attempted"));
        let full = "█".repeat(30);
        assert_eq!(line(10, 10), format!("{full}  10 of 10 attempted"));
        assert_eq!(line(0, 0), format!("{full}  0 of 0 attempted"));
        assert_eq!(line(5, 10).matches('█').count(), 15);
    }
}
