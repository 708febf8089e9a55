//! `admin event tail`: prints the latest events and follows them.

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use super::output::{Output, Tone, plain};
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;

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
    let mut printed = Printed::default();
    for event in latest.iter().rev() {
        printed.is_new(event);
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
    let mut is_failing = false;
    loop {
        tokio::time::sleep(PAUSE).await;
        let fresh = in_order("asc").with("from", printed.until.as_ref());
        match client.rows(&fresh, None).await {
            Ok(fresh) => {
                is_failing = false;
                for event in fresh.iter().filter(|event| printed.is_new(event)) {
                    print(event, output)?;
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
    let at = style.paint(&at, Some(Tone::Faint));
    let kind = style.paint(&kind, Some(Tone::Heading));
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
    use crate::tools::operator::output::Style;

    #[test]
    fn an_event_is_one_line_as_wide_as_the_terminal() {
        let event = json!({
            "timestamp": "2026-04-09T14:30:00.007Z", "event_type": "budget.funded", "scope": "tenant:acme",
            "data": {"amount": {"unit": "TOKENS", "amount": 5}, "operation": "CREDIT"},
        });
        let printed = |width| {
            let mut text = Vec::new();
            let colour = false;
            let style = Style { colour, width };
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
