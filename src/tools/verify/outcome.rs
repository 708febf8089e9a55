//! Progress, output and exit code of both verifications.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::store::StoreError;
use crate::telemetry::error_chain;

/// The time between two lines of progress.
const PROGRESS_PERIOD: Duration = Duration::from_secs(3);

/// Returns a function that prints a report's progress to standard error every [`PROGRESS_PERIOD`].
pub(super) fn progress<R>(text: impl Fn(&R) -> String) -> impl FnMut(&R) {
    let mut printed = Instant::now();
    move |report| {
        if printed.elapsed() >= PROGRESS_PERIOD {
            printed = Instant::now();
            eprintln!("{}", text(report));
        }
    }
}

/// Prints a report as JSON, or as `text` makes it. The exit code: 0 when everything is right, 1 when something is wrong, 2
/// when the verification failed or, for the reason given, had nothing to verify.
pub(super) fn print<R: Serialize>(
    verified: Result<(R, Option<String>), StoreError>,
    is_right: impl Fn(&R) -> bool,
    json: bool,
    text: impl Fn(&R) -> String,
    mut output: impl Write,
) -> u8 {
    let report = match verified {
        Ok((report, None)) => report,
        Ok((_, Some(reason))) => {
            eprintln!("{reason}");
            return 2;
        }
        Err(error) => {
            eprintln!("the verification failed: {}", error_chain(&error));
            return 2;
        }
    };
    let text = match json {
        true => serde_json::json!(report).to_string() + "\n",
        false => text(&report),
    };
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Ok(()) => u8::from(!is_right(&report)),
        Err(_) => 2,
    }
}
