//! `budget-authority limits`: every limit of the API that is a setting, and its value in this environment.

use std::ffi::OsStr;
use std::io;

use clap::{Arg, Args, Command};
use serde_json::json;

use super::call::CallError;
use super::output::{Output, Terminal};
use crate::config::{LIMITS_HEADING, ServeArgs};

/// Settings of `budget-authority limits`.
#[derive(Debug, Clone, Copy, Args)]
pub struct LimitsArgs {
    /// Print one JSON object per limit instead of a table
    #[arg(long)]
    json: bool,
}

const COLUMNS: &str = "SETTING=setting, VALUE=value, DEFAULT=default, MEANING=meaning";

/// Prints the limits, each with its variable, its value, its default and its meaning. Ends the process if
/// `budget-authority serve` refuses the value of one.
///
/// # Errors
/// [`CallError::Output`].
pub fn limits(args: LimitsArgs) -> Result<(), CallError> {
    let serve = ServeArgs::augment_args(Command::new("serve"));
    let limits = serve.get_arguments();
    let limits = limits.filter(|arg| arg.get_help_heading() == Some(LIMITS_HEADING));
    let command = Command::new("limits").no_binary_name(true).args(limits);
    let matches = command.clone().get_matches_from([""; 0]);
    let row = |limit: &Arg| {
        let value = matches.get_raw(limit.get_id().as_str());
        let default = limit.get_default_values().first();
        json!({
            "setting": text(limit.get_env()),
            "value": text(value.and_then(|mut values| values.next())),
            "default": text(default.map(|default| &**default)),
            "meaning": limit.get_help().map(ToString::to_string).unwrap_or_default(),
        })
    };
    let rows: Vec<_> = command.get_arguments().map(row).collect();
    let mut output = Output {
        to: io::stdout().lock(),
        is_json: args.json,
        terminal: Terminal::default(),
    };
    output.table(COLUMNS, &rows, "")
}

fn text(text: Option<&OsStr>) -> String {
    text.unwrap_or_default().to_string_lossy().into_owned()
}
