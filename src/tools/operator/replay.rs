//! `admin webhook replay`: asks for a replay and follows it.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::output::Output;
use crate::api::operations::OperationId;
use crate::domain::webhook::{DeliveryId, ReplayId, SubscriptionId};
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;

/// How often to look.
const PAUSE: Duration = Duration::from_millis(500);
/// By how much the clocks of this machine and of Redis may differ.
const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// Width of the bar.
const BAR: usize = 30;

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
    let outcome = follow(client, (&subscription, &id), events, made).await?;
    if let Some(members) = queued.as_object_mut() {
        members.remove("estimated_completion_seconds");
        members.extend(outcome.as_object().cloned().unwrap_or_default());
    }
    output.object(&queued)?;
    match queued["failed"].as_u64() {
        Some(1..) => Err(CallError::Incomplete(
            "some deliveries failed for good; `admin webhook deliveries` shows why",
        )),
        _ => Ok(()),
    }
}

/// Waits for the first attempts of a replay, and counts its deliveries by status.
async fn follow(
    client: &Client,
    (subscription, replay): (&SubscriptionId, &ReplayId),
    events: u64,
    (from, to): (Timestamp, Timestamp),
) -> Result<Value, CallError> {
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
        let [succeeded, retrying, failed] = ["SUCCESS", "RETRYING", "FAILED"].map(count);
        let attempted = succeeded + retrying + failed;
        let is_done = attempted >= events;
        if has_terminal {
            let end = if is_done { "\n" } else { "" };
            eprint!("\r{}{end}", line(attempted, events));
        }
        if is_done {
            return Ok(json!({"succeeded": succeeded, "retrying": retrying, "failed": failed}));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The bar on the terminal.
fn line(done: u64, all: u64) -> String {
    let cells = (done.min(all) * BAR as u64)
        .checked_div(all)
        .and_then(|cells| usize::try_from(cells).ok())
        .unwrap_or(BAR);
    let (full, rest) = ("█".repeat(cells), "░".repeat(BAR - cells));
    format!("{full}{rest}  {done} of {all} attempted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_with_the_attempts() {
        let empty = "░".repeat(BAR);
        assert_eq!(line(0, 10), format!("{empty}  0 of 10 attempted"));
        let full = "█".repeat(BAR);
        assert_eq!(line(10, 10), format!("{full}  10 of 10 attempted"));
        assert_eq!(line(0, 0), format!("{full}  0 of 0 attempted"));
        assert_eq!(line(5, 10).matches('█').count(), BAR / 2);
    }
}
