//! The flags of `admin budget fund` and `budget bulk`: one for each funding operation, which takes the amount.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use serde_json::Value;

use super::amounts::{ReadArgument, amount_in};
use crate::domain::money;
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

/// The operation without an amount.
const RENEW: &str = "renew";

/// Adds the flags, one of which must be given.
pub(super) fn with_arguments(command: Command) -> Command {
    let flags = OPERATIONS.map(|(name, about)| {
        let flag = Arg::new(name).long(name).value_name("AMOUNT").help(about);
        flag.value_parser(money::read as ReadArgument)
    });
    let about =
        "Begin a new period now; its end stays. Without a period, nothing counts as spent any more";
    let renew = Arg::new(RENEW).long(RENEW).action(ArgAction::SetTrue);
    let names = OPERATIONS.map(|(name, _)| name);
    let one_of_them = ArgGroup::new("funding")
        .args(names)
        .arg(RENEW)
        .required(true);
    command
        .args(flags)
        .arg(renew.help(about))
        .group(one_of_them)
}

/// The flag that is given with an amount, and the amount.
pub(super) fn amount(matches: &ArgMatches) -> Option<(&'static str, &Value)> {
    let given = |(name, _)| Some((name, matches.get_one::<Value>(name)?));
    OPERATIONS.into_iter().find_map(given)
}

/// Sets the funding operation, as `member` of the body, and its amount.
pub(super) fn set(
    matches: &ArgMatches,
    member: &str,
    unit: Option<&Value>,
    call: &mut Call,
) -> Result<(), CallError> {
    let body = call.body.get_or_insert_default();
    let amount = amount(matches);
    let name = match amount {
        Some((name, _)) => name,
        None if matches.get_flag(RENEW) => RENEW,
        None => return Ok(()),
    };
    if name != "reset-spent" && body.get("spent").is_some() {
        let text = "--spent requires --reset-spent".to_owned();
        return Err(CallError::Usage(text));
    }
    body[member] = name.to_uppercase().replace('-', "_").into();
    if let Some((_, amount)) = amount {
        body["amount"] = amount_in(unit, amount);
    }
    Ok(())
}
