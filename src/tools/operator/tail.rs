//! `admin event tail`: prints the latest events and follows them.

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use super::check_tenant;
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;
use crate::tools::output::{FAINT, HEADING, Output, plain};

/// How often to read new events.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints the latest of `events`, at most `lines`, then with `follow` new ones until an error.
///
/// # Errors
/// As for [`Client::send`]; failures of the service end nothing while it follows.
pub(super) async fn run(
    events: &Call,
    (lines, follow): (usize, bool),
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let in_order = |direction: &str| events.clone().with("sort_dir", Some(direction));
    // At least one, to know from where to follow.
    let latest = client.rows(&in_order("desc"), Some(lines.max(1))).await?;
    if latest.is_empty() {
        check_tenant(events, client).await?;
    }
    for event in latest.iter().take(lines).rev() {
        print(event, output)?;
    }
    if !follow {
        if latest.is_empty() {
            eprintln!("no events");
        }
        return Ok(());
    }
    // The last millisecond is read again, which may have more events by then.
    let mut until = latest.first().map(|event| plain(&event["timestamp"]));
    let mut printed: HashSet<_> = latest.iter().map(id_of).collect();
    let mut is_failing = false;
    loop {
        tokio::time::sleep(PAUSE).await;
        let fresh = in_order("asc").with("from", until.as_ref());
        match client.rows(&fresh, None).await {
            Ok(fresh) => {
                is_failing = false;
                let is_new = |event: &&Value| !printed.contains(&id_of(event));
                for event in fresh.iter().filter(is_new) {
                    print(event, output)?;
                }
                if let Some(last) = fresh.last() {
                    until = Some(plain(&last["timestamp"]));
                    printed = fresh.iter().map(id_of).collect();
                }
            }
            // Missed events are printed once the service responds again.
            Err(CallError::Unavailable(problem)) => {
                if !is_failing {
                    eprintln!("{problem}");
                }
                is_failing = true;
            }
            Err(error) => return Err(error),
        }
    }
}

fn id_of(event: &Value) -> String {
    plain(&event["event_id"])
}

/// Prints an event as a line, which a terminal's width cuts.
fn print(event: &Value, output: &mut Output<impl Write>) -> Result<(), CallError> {
    if output.is_json {
        return output.line(&event.to_string());
    }
    let text = |name: &str| plain(&event[name]);
    let owner = event.get("scope").map_or_else(|| text("tenant_id"), plain);
    let (at, kind) = (text("timestamp"), format!("{:<28}", text("event_type")));
    let terminal = output.terminal;
    let used = at.chars().count() + kind.chars().count() + 4;
    let rest = terminal.fit(&format!("{owner}  {}", facts(&event["data"])), used);
    let (at, kind) = (terminal.paint(&at, FAINT), terminal.paint(&kind, HEADING));
    output.line(format!("{at}  {kind}  {rest}").trim_end())
}

/// The data of an event as `name=value`.
fn facts(data: &Value) -> String {
    let members = data.as_object().into_iter().flatten();
    let facts = members.map(|(name, value)| format!("{name}={}", plain(value)));
    facts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::output::Terminal;

    #[test]
    fn an_event_is_one_line_as_wide_as_the_terminal() {
        let event = json!({
            "timestamp": "2026-04-09T14:30:00.007Z", "event_type": "budget.funded", "scope": "tenant:acme",
            "data": {"amount": {"unit": "TOKENS", "amount": 5}, "operation": "CREDIT"},
        });
        let printed = |width| {
            let mut text = Vec::new();
            let (colour, is_json) = (false, false);
            let terminal = Terminal { colour, width };
            let to = &mut text;
            let mut output = Output {
                to,
                is_json,
                terminal,
            };
            print(&event, &mut output).expect("it prints");
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
