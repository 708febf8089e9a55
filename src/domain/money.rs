//! Amounts as people write and read them: `0.25usd`, `1.5k tokens`, `$5.00`. Exact, or refused.

use serde_json::{Value, json};

use super::amount::{DOLLAR, Unit};

/// Decimal places of a dollar that microcents have.
const PLACES: usize = 8;
/// More digits than any amount has.
const DIGITS_MAX: usize = 30;

const WANTED: &str = "must be an amount such as 1000, 1.5k, 0.25usd or '2M tokens'";

/// Reads an amount: a number, perhaps with `k`, `M` or `G` for thousands, millions or billions, then perhaps a unit. JSON: the integer, or
/// with a unit an amount.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn read(text: &str) -> Result<Value, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, rest) = text.split_at(end.unwrap_or(text.len()));
    let (thousands, word) = match rest.chars().next() {
        Some('k') => (1_000, &rest[1..]),
        Some('M') => (1_000_000, &rest[1..]),
        Some('G') => (1_000_000_000, &rest[1..]),
        _ => (1, rest),
    };
    let (unit, each) = match word.trim().to_lowercase().as_str() {
        "" => (None, 1),
        "usd" => (Some(Unit::UsdMicrocents), DOLLAR),
        "usd_microcents" => (Some(Unit::UsdMicrocents), 1),
        "token" | "tokens" => (Some(Unit::Tokens), 1),
        "credit" | "credits" => (Some(Unit::Credits), 1),
        "risk_point" | "risk_points" => (Some(Unit::RiskPoints), 1),
        _ => return Err(WANTED.to_owned()),
    };
    let value = scaled(number, thousands * each).map_err(|why| match (why, each) {
        (Wrong::Form, _) => WANTED.to_owned(),
        (Wrong::Large, _) => format!("is more than {}, the greatest amount", i64::MAX),
        (Wrong::Inexact, DOLLAR) => "is not exact: the least amount is 0.00000001usd".to_owned(),
        (Wrong::Inexact, _) => "is not exact: it must be a whole number of the unit".to_owned(),
    })?;
    Ok(match unit {
        Some(unit) => json!({"unit": unit.as_str(), "amount": value}),
        None => json!(value),
    })
}

/// Why a number is no amount.
enum Wrong {
    Form,
    Inexact,
    Large,
}

/// A decimal number times a factor, as an integer.
fn scaled(number: &str, factor: i128) -> Result<i64, Wrong> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || part.is_empty() || part.contains('.') {
        return Err(Wrong::Form);
    }
    let part = part.trim_end_matches('0');
    let digits = format!("{whole}{part}");
    if digits.len() > DIGITS_MAX {
        return Err(if part.len() > PLACES {
            Wrong::Inexact
        } else {
            Wrong::Large
        });
    }
    let digits: i128 = digits.parse().map_err(|_| Wrong::Form)?;
    let parts = 10_i128.pow(u32::try_from(part.len()).map_err(|_| Wrong::Form)?);
    let value = digits.checked_mul(factor).ok_or(Wrong::Large)?;
    match value % parts {
        0 => i64::try_from(value / parts).map_err(|_| Wrong::Large),
        _ => Err(Wrong::Inexact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::amount::dollars;
    use crate::domain::rows;

    #[test]
    fn amounts_are_read_exactly_or_refused() {
        for (text, expected) in rows(
            "0 => 0
            1000 => 1000
            1.5k => 1500
            2M => 2000000
            1.0 => 1
            9223372036854775807 => 9223372036854775807
            5usd => 500000000 USD_MICROCENTS
            0.25 usd => 25000000 USD_MICROCENTS
            0.00000001USD => 1 USD_MICROCENTS
            1.5k usd => 150000000000 USD_MICROCENTS
            7 usd_microcents => 7 USD_MICROCENTS
            1 token => 1 TOKENS
            1.5k tokens => 1500 TOKENS
            2M tokens => 2000000 TOKENS
            1G credits => 1000000000 CREDITS
            3 risk_points => 3 RISK_POINTS
            92233720368.54775807usd => 9223372036854775807 USD_MICROCENTS
            92233720368.54775808usd => ! is more than 9223372036854775807, the greatest amount
            9223372036854775808 => ! is more than 9223372036854775807, the greatest amount
            1000000000000000000000000000000000 => ! is more than 9223372036854775807, the greatest amount
            0.000000001usd => ! is not exact: the least amount is 0.00000001usd
            0.1 => ! is not exact: it must be a whole number of the unit
            1.0005k tokens => ! is not exact: it must be a whole number of the unit
            5 eur => ! must be an amount
            5m => ! must be an amount
            -5 => ! must be an amount
            .5usd => ! must be an amount
            5.usd => ! must be an amount
            1.2.3 => ! must be an amount
            usd => ! must be an amount
            1e3 => ! must be an amount",
        ) {
            let found = match read(text) {
                Ok(Value::Object(amount)) => {
                    format!("{} {}", amount["amount"], amount["unit"].as_str().expect("a unit"))
                }
                Ok(amount) => amount.to_string(),
                Err(why) => format!("! {why}"),
            };
            assert!(found.starts_with(expected), "{text}: {found}");
        }
    }

    #[test]
    fn dollars_have_all_their_places_and_read_back() {
        for (microcents, text) in [
            (0, "$0.00"),
            (1, "$0.00000001"),
            (25_000_000, "$0.25"),
            (500_000_000, "$5.00"),
            (512_345_678, "$5.12345678"),
            (550_000_000, "$5.50"),
            (-25_500_000, "-$0.255"),
            (i64::MAX, "$92233720368.54775807"),
            (i64::MIN, "-$92233720368.54775808"),
        ] {
            assert_eq!(dollars(microcents), text);
            if microcents >= 0 {
                let read = read(&format!("{}usd", &text[1..])).expect("an amount");
                assert_eq!(read["amount"], microcents);
            }
        }
    }
}
