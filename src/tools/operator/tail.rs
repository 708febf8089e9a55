//! `admin event tail`: prints the latest events and follows them.

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::output::{Output, plain};
use super::style::Tone;
use super::time::past;
use crate::api::operations::OperationId;
use crate::tools::call::Call;
use crate::tools::client::Client;
use crate::tools::client_error::CallError;

/// How often to read new events.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Args, Serialize)]
pub(super) struct Tail {
    /// Only this tenant
    #[arg(long)]
    #[serde(rename = "tenant_id")]
    tenant: Option<String>,
    /// Only this type: budget.exhausted
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only this category: budget, reservation, tenant, api_key, policy, webhook or system
    #[arg(long)]
    category: Option<String>,
    /// Beginning of the scope
    #[arg(long, value_name = "TEXT")]
    scope: Option<String>,
    /// Only events that this request caused
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Only since then: a time, or 15m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = past)]
    #[serde(skip)]
    since: Option<String>,
    /// How many of the latest events
    #[arg(short = 'n', long, value_name = "N", default_value = "20")]
    #[serde(skip)]
    lines: usize,
    /// Show new events as they come, until interrupted
    #[arg(short, long)]
    #[serde(skip)]
    follow: bool,
}

impl Tail {
    /// Prints the latest events, then with `--follow` new ones until an error.
    pub async fn run(
        &self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), CallError> {
        let since = self.since.as_deref();
        // At least one, to know from where to follow.
        let (page, lines) = (|| self.page("desc", since), self.lines.max(1));
        let latest = client.rows(page, "events", Some(lines)).await?;
        let mut printed = Printed::default();
        for event in latest.iter().rev() {
            printed.is_new(event);
        }
        for event in latest.iter().take(self.lines).rev() {
            print(event, output)?;
        }
        if !self.follow {
            if latest.is_empty() {
                eprintln!("no events");
            }
            return Ok(());
        }
        let mut failing = false;
        loop {
            tokio::time::sleep(PAUSE).await;
            let from = printed.until.clone();
            let page = || self.page("asc", from.as_deref().or(since));
            let fresh = match client.rows(page, "events", None).await {
                Ok(fresh) => fresh,
                // Events that are missed meanwhile are printed when the service is back.
                Err(error) if error.is_transient() => {
                    if !failing {
                        eprintln!("{error}");
                    }
                    failing = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            failing = false;
            for event in fresh.iter().filter(|event| printed.is_new(event)) {
                print(event, output)?;
            }
        }
    }

    fn page(&self, direction: &str, from: Option<&str>) -> Call {
        Call::of(OperationId::ListEvents)
            .query(self)
            .with("from", from)
            .with("sort_dir", Some(direction))
    }
}

/// The events printed of the last millisecond, which is read again.
#[derive(Debug, Default)]
struct Printed {
    until: Option<String>,
    ids: HashSet<String>,
}

impl Printed {
    fn is_new(&mut self, event: &Value) -> bool {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let at = text("timestamp");
        if self.until.as_ref() != Some(&at) {
            self.ids.clear();
            self.until = Some(at);
        }
        self.ids.insert(text("event_id"))
    }
}

/// Prints an event as a line, which a terminal's width cuts.
fn print(event: &Value, output: &mut Output<impl Write>) -> Result<(), CallError> {
    if output.is_json() {
        return output.line(&event.to_string());
    }
    let text = |name: &str| plain(&event[name]);
    let owner = event.get("scope").map_or_else(|| text("tenant_id"), plain);
    let (at, kind) = (text("timestamp"), format!("{:<28}", text("event_type")));
    let style = output.style();
    let used = at.chars().count() + kind.chars().count() + 4;
    let rest = style.fit(&format!("{owner}  {}", facts(&event["data"])), used);
    let (at, kind) = (
        style.paint(&at, Some(Tone::Faint)),
        style.paint(&kind, Some(Tone::Heading)),
    );
    output.line(format!("{at}  {kind}  {rest}").trim_end())
}

/// The data of an event as `name=value`.
fn facts(data: &Value) -> String {
    let Some(members) = data.as_object() else {
        return String::new();
    };
    let fact = |(name, value): (&String, &Value)| format!("{name}={}", plain(value));
    members.iter().map(fact).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::operator::style::Style;

    #[test]
    fn an_event_is_one_line_as_wide_as_the_terminal() {
        let event = json!({
            "timestamp": "2026-04-09T14:30:00.007Z", "event_type": "budget.funded", "scope": "tenant:acme",
            "data": {"amount": {"unit": "TOKENS", "amount": 5}, "operation": "CREDIT"},
        });
        let printed = |width| {
            let mut text = Vec::new();
            let style = Style {
                colour: false,
                width,
            };
            print(&event, &mut Output::new(&mut text, false, style)).expect("it prints");
            String::from_utf8(text).expect("text")
        };
        let whole = "2026-04-09T14:30:00.007Z  budget.funded                 tenant:acme  amount=5 TOKENS operation=CREDIT\n";
        assert_eq!(printed(None), whole);
        assert_eq!(printed(Some(200)), whole);
        let cut = printed(Some(80));
        assert_eq!(cut.trim_end().chars().count(), 80, "{cut}");
        assert!(cut.ends_with("…\n"));
    }
}
