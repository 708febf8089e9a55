//! `budget-authority limits`: every limit of the API that is a setting, and its value in this environment.

use std::ffi::OsStr;

use clap::{Args, Command};
use serde_json::json;

use super::table::Table;
use crate::config::{LIMITS_HEADING, ServeArgs};

/// Settings of `budget-authority limits`.
#[derive(Debug, Clone, Copy, Args)]
pub struct LimitsArgs {
    /// Print one JSON object per limit instead of a table
    #[arg(long)]
    json: bool,
}

/// The limits, each with its variable, its value, its default and its meaning.
///
/// # Errors
/// As `budget-authority serve` refuses the value of a limit.
pub fn limits(args: LimitsArgs) -> Result<String, clap::Error> {
    let serve = ServeArgs::augment_args(Command::new("serve"));
    let limits = serve.get_arguments();
    let limits = limits.filter(|arg| arg.get_help_heading() == Some(LIMITS_HEADING));
    let command = Command::new("limits").no_binary_name(true).args(limits);
    let matches = command.clone().try_get_matches_from([""; 0])?;
    let mut table = Table::new(4, ["SETTING", "VALUE", "DEFAULT", "MEANING"]);
    let mut lines = String::new();
    for limit in command.get_arguments() {
        let value = matches.get_raw(limit.get_id().as_str());
        let default = limit.get_default_values().first();
        let row = [
            text(limit.get_env()),
            text(value.and_then(|mut values| values.next())),
            text(default.map(|default| &**default)),
            limit
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ];
        let [setting, value, default, meaning] = &row;
        let line =
            json!({"setting": setting, "value": value, "default": default, "meaning": meaning});
        lines += &format!("{line}\n");
        table.row(row);
    }
    Ok(if args.json { lines } else { table.to_string() })
}

fn text(text: Option<&OsStr>) -> String {
    text.unwrap_or_default().to_string_lossy().into_owned()
}
