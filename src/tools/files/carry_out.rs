//! Carries a plan out, some steps at a time.

use std::io::{IsTerminal as _, Write};

use serde_json::Value;
use tokio::task::JoinSet;

use super::plan::Step;
use crate::tools::call::CallError;
use crate::tools::client::Client;
use crate::tools::output::Output;

/// Most steps that are in progress at the same time.
const AT_A_TIME: usize = 8;

/// What a response shows only once.
const SECRETS: [&str; 2] = ["key_secret", "signing_secret"];

/// Carries the steps out in their order, and prints each secret, or with `--json` each step, when it is done.
///
/// # Errors
/// The first that a step ended with. Steps in progress are completed, and no further one is begun.
pub(super) async fn carry_out(
    steps: Vec<Step>,
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let (total, mut done, mut order, mut failed) = (steps.len(), 0, 0, None);
    let (mut waiting, mut in_progress) = (steps.into_iter().peekable(), JoinSet::new());
    loop {
        // A step of a higher order waits for all of a lower one.
        while failed.is_none()
            && in_progress.len() < AT_A_TIME
            && let Some(step) =
                waiting.next_if(|step| in_progress.is_empty() || step.order == order)
        {
            order = step.order;
            in_progress.spawn(run(step, client.clone()));
        }
        let Some(joined) = in_progress.join_next().await else {
            break;
        };
        let (step, response, error) = match joined {
            Ok(ended) => ended,
            Err(error) => {
                let what = format!("a step ended: {error}; apply again");
                failed = failed.or(Some(CallError::Unavailable(what)));
                continue;
            }
        };
        let line = step.line.clone();
        // Also what a step made before its next request failed.
        let printed = match error.is_none() || has_secret(&response) {
            true => show(step, &response, output),
            false => Ok(()),
        };
        // A pipe that was closed is a failure here: the response may have had a secret.
        let unwritten = |error: CallError| CallError::Unavailable(error.to_string());
        match error.or(printed.map_err(unwritten).err()) {
            None => {
                done += 1;
                if std::io::stderr().is_terminal() {
                    eprint!("\r{done} of {total}\r");
                }
            }
            Some(error) => {
                eprintln!("failed: {line}");
                failed = failed.or(Some(error));
            }
        }
    }
    eprintln!("{done} of {total} done");
    failed.map_or(Ok(()), Err)
}

/// Sends the requests of a step. Returns the response to the first, and why one failed.
async fn run(mut step: Step, client: Client) -> (Step, Value, Option<CallError>) {
    let mut first = Value::Null;
    for mut call in std::mem::take(&mut step.calls) {
        if call.id.is_none() {
            let mut created = [&first, &first["subscription"]].into_iter();
            call.id = created.find_map(|it| Some(it[step.id].as_str()?.to_owned()));
        }
        match client.send(&call).await {
            Ok(response) if first.is_null() => first = response,
            Ok(_) => {}
            Err(error) => return (step, first, Some(error)),
        }
    }
    (step, first, None)
}

fn has_secret(response: &Value) -> bool {
    SECRETS.iter().any(|name| response[*name].is_string())
}

fn show(
    mut step: Step,
    response: &Value,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    for name in SECRETS {
        if let Some(secret) = response[name].as_str() {
            step.row[name] = secret.into();
            if !output.is_json {
                let title = step.line.trim_start_matches("+ create ");
                output.line(&format!("{name} of {title}, printed only now: {secret}"))?;
            }
        }
    }
    match output.is_json {
        true => output.json(&step.row),
        false => Ok(()),
    }
}
