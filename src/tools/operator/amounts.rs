//! The amounts of a command, and their unit.

use serde_json::{Value, json};

use super::inputs::text;
use crate::domain::money;
use crate::tools::call::CallError;

/// Reads an argument; an error says what is wrong with it.
pub(super) type ReadArgument = fn(&str) -> Result<Value, String>;

/// The value that removes a word or a list.
pub(super) const NONE: &str = "none";

/// The unit that amounts and limits name, the same for all of them. `unit` is that of `--unit`, where it is given.
///
/// # Errors
/// Of two units.
pub(super) fn unit_of<'a>(
    amounts: impl IntoIterator<Item = &'a Value>,
    mut unit: Option<&'a Value>,
) -> Result<Option<&'a Value>, CallError> {
    for amount in amounts {
        let is_limit = amount.get("every").is_some();
        let amount = if is_limit { &amount["amount"] } else { amount };
        let named = amount.get("unit");
        if let (Some(named), Some(unit)) = (named, unit)
            && named != unit
        {
            let [named, unit] = [named, unit].map(text);
            let text = format!("an amount is in {named}, and another or --unit says {unit}");
            return Err(CallError::Usage(text));
        }
        unit = unit.or(named);
    }
    Ok(unit)
}

/// An amount as `money::read` reads it, in a unit.
pub(super) fn amount_in(unit: Option<&Value>, amount: &Value) -> Value {
    json!({"unit": unit, "amount": amount.get("amount").unwrap_or(amount)})
}

/// Reads a limit, such as `PT1H=20000` or `P1D@Europe/Berlin=5usd`; its amount is as `money::read` reads it.
pub(super) fn limit(text: &str) -> Result<Value, String> {
    if text == NONE {
        return Ok(NONE.into());
    }
    let wanted = "must be EVERY=AMOUNT or EVERY@ZONE=AMOUNT, such as P1D@Europe/Berlin=5usd";
    let (window, amount) = text.split_once('=').ok_or(wanted)?;
    let amount = money::read(amount)?;
    Ok(match window.split_once('@') {
        Some((every, zone)) => json!({"every": every, "time_zone": zone, "amount": amount}),
        None => json!({"every": window, "amount": amount}),
    })
}
