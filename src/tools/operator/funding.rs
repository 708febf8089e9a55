//! The flags of `admin budget fund` and `budget bulk`: one for each funding operation, which takes the amount.

use clap::{Arg, ArgGroup, ArgMatches, Command, value_parser};
use serde_json::json;

use super::inputs::{UNIT, text};
use crate::tools::call::{Call, CallError};

const OPERATIONS: [(&str, &str); 5] = [
    ("credit", "Add to the allocation"),
    (
        "debit",
        "Take from the part of the allocation that is not used",
    ),
    ("reset", "Set the allocation"),
    (
        "reset-spent",
        "Begin a new period with this allocation and nothing spent",
    ),
    (
        "repay-debt",
        "Repay debt; the rest is added to the allocation",
    ),
];

/// Adds the flags, one of which must be given.
pub(super) fn with_arguments(command: Command) -> Command {
    let flags = OPERATIONS.map(|(name, about)| {
        let flag = Arg::new(name).long(name).value_name("AMOUNT").help(about);
        flag.value_parser(value_parser!(i64))
    });
    let names = OPERATIONS.map(|(name, _)| name);
    let one_of_them = ArgGroup::new("funding").args(names).required(true);
    command.args(flags).group(one_of_them)
}

/// Sets the funding operation, as `member` of the body, and its amount.
pub(super) fn set(matches: &ArgMatches, member: &str, call: &mut Call) -> Result<(), CallError> {
    let body = call.body.get_or_insert_default();
    let given = |(name, _)| Some((name, matches.get_one::<i64>(name)?));
    let Some((name, amount)) = OPERATIONS.into_iter().find_map(given) else {
        return Ok(());
    };
    if name != "reset-spent" && body.get("spent").is_some() {
        let text = "--spent requires --reset-spent".to_owned();
        return Err(CallError::Usage(text));
    }
    let unit = matches.get_one(UNIT).map(text);
    body[member] = name.to_uppercase().replace('-', "_").into();
    body["amount"] = json!({"unit": unit, "amount": amount});
    Ok(())
}
