//! `admin webhook replay`: asks for a replay and follows it.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use super::output::Output;
use super::time::past;
use crate::api::operations::OperationId;
use crate::domain::webhook::{DeliveryId, ReplayId, SubscriptionId};
use crate::tools::call::Call;
use crate::tools::client::Client;
use crate::tools::client_error::{CallError, Retry};

/// How often to look.
const PAUSE: Duration = Duration::from_millis(500);
/// By how much the clocks of this machine and of Redis may differ.
const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// Width of the bar.
const BAR: usize = 30;

#[derive(Debug, Args, Serialize)]
pub(super) struct Replay {
    #[serde(skip)]
    subscription_id: String,
    /// Only events since then: a time, or 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = past)]
    #[serde(rename = "from")]
    since: Option<String>,
    /// Only events until then
    #[arg(long, value_name = "TIME", value_parser = past)]
    #[serde(rename = "to")]
    until: Option<String>,
    /// Only events of these types; repeated or comma-separated
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    event_types: Vec<String>,
    /// Replay nothing if there are more events than this, up to 1000
    #[arg(long, value_name = "N", default_value = "100")]
    max_events: i64,
    /// Do not wait for the outcome
    #[arg(long)]
    #[serde(skip)]
    no_wait: bool,
}

impl Replay {
    /// Asks for the replay, prints what was queued, and waits until each delivery has been attempted.
    pub async fn run(
        &self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), CallError> {
        let since = Timestamp::now() - SKEW;
        let call = Call::to(OperationId::ReplayEvents, &self.subscription_id).body(self);
        let advice = format!(
            "`admin webhook deliveries {}` shows what was queued",
            self.subscription_id
        );
        let mut queued = client.send(&call.retry(Retry::Never(advice))).await?;
        // Its deliveries have the time of the request.
        let made = (since, Timestamp::now() + SKEW);
        if self.no_wait {
            return output.object(&queued);
        }
        let ids = SubscriptionId::parse(&self.subscription_id)
            .zip(queued["replay_id"].as_str().and_then(ReplayId::parse));
        let (subscription, replay) = ids.ok_or_else(|| client.unreadable())?;
        let events = queued["events_queued"].as_u64().unwrap_or(0);
        match events {
            0 => eprintln!("nothing to replay: no such event, or the webhook is not ACTIVE"),
            _ => eprintln!("{replay}: {events} events are queued; a dispatcher sends them"),
        }
        let outcome = follow(client, (&subscription, &replay), events, made).await?;
        if let Some(members) = queued.as_object_mut() {
            members.remove("estimated_completion_seconds");
            members.extend(outcome.as_object().cloned().unwrap_or_default());
        }
        output.object(&queued)?;
        match queued["failed"].as_u64() {
            Some(1..) => Err(CallError::ReplayFailed),
            _ => Ok(()),
        }
    }
}

/// Waits for the first attempts of a replay, and counts its deliveries by status.
async fn follow(
    client: &Client,
    (subscription, replay): (&SubscriptionId, &ReplayId),
    events: u64,
    (from, to): (Timestamp, Timestamp),
) -> Result<Value, CallError> {
    let page = || {
        Call::to(OperationId::ListWebhookDeliveries, subscription.as_str())
            .with("from", Some(from))
            .with("to", Some(to))
    };
    // The id of a delivery follows from event, subscription and replay.
    let is_of_replay = |row: &Value| {
        let event = row["event_id"].as_str().unwrap_or_default();
        let id = DeliveryId::of(subscription.partition(), event, subscription, Some(replay));
        row["delivery_id"] == id.as_str()
    };
    let mut bar = Bar::new(events);
    loop {
        let rows = client.rows(page, "deliveries", None).await?;
        let mut counts: HashMap<&str, u64> = HashMap::new();
        for row in rows.iter().filter(|row| is_of_replay(row)) {
            *counts
                .entry(row["status"].as_str().unwrap_or_default())
                .or_default() += 1;
        }
        let count = |status: &str| counts.get(status).copied().unwrap_or(0);
        let [succeeded, retrying, failed] = ["SUCCESS", "RETRYING", "FAILED"].map(count);
        let attempted = succeeded + retrying + failed;
        bar.show(attempted);
        if attempted >= events {
            bar.end();
            return Ok(json!({"succeeded": succeeded, "retrying": retrying, "failed": failed}));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A line on the terminal, if standard error is one.
struct Bar {
    all: u64,
    on: bool,
}

impl Bar {
    fn new(all: u64) -> Self {
        let on = std::io::stderr().is_terminal();
        Self { all, on }
    }

    fn show(&self, done: u64) {
        if self.on {
            eprint!("\r{}", line(done, self.all));
        }
    }

    fn end(&mut self) {
        if self.on {
            eprintln!();
        }
    }
}

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
