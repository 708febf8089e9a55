//! How templates show amounts, times and shares.

use minijinja::value::Serde;
use minijinja::{Environment, Value as Any};
use serde_json::Value;

use crate::domain::amount::{Unit, dollars};
use crate::domain::moment::Moment;

/// Adds the filters.
pub(super) fn add_to(pages: &mut Environment<'_>) {
    pages.add_filter("amount", |amount: Serde<Value>| {
        in_words(&amount["unit"], amount["amount"].as_i64())
    });
    // Of what is absent, nothing is shown.
    pages.add_filter("of_unit", |amount: Any, unit: Any| {
        let unit = unit.as_str().unwrap_or_default();
        in_words(&unit.into(), amount.as_i64())
    });
    pages.add_filter("exactly", |amount: Serde<Value>| {
        format!(
            "{} {}",
            amount["amount"],
            amount["unit"].as_str().unwrap_or_default()
        )
    });
    pages.add_filter("utc", |time: Any| match time.as_i64() {
        Some(ms) => Moment::from_ms(ms).map_or_else(String::new, |moment| moment.to_string()),
        None => time.to_string(),
    });
    pages.add_filter("share", |part: Any, whole: Any| {
        share(part.as_i64().unwrap_or(0), whole.as_i64().unwrap_or(0))
    });
    pages.add_filter("counted", |number: Any, noun: String| {
        counted(number.as_i64().unwrap_or(0), &noun)
    });
    pages.add_filter("until", |at: Any, now_ms: i64| {
        let at = at.as_str().and_then(Moment::parse);
        at.map_or_else(String::new, |at| until(at.as_ms() - now_ms))
    });
    pages.add_filter("since", |now_ms: i64, at_ms: Any| {
        let at_ms = at_ms.as_i64();
        at_ms.map_or_else(String::new, |at_ms| until(now_ms - at_ms))
    });
    pages.add_filter("json", |value: Serde<Value>| format!("{:#}", value.0));
    pages.add_filter("url", |text: String| -> String {
        url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
    });
}

/// An amount as people read it: money in dollars, anything else with its thousands apart.
fn in_words(unit: &Value, amount: Option<i64>) -> String {
    let Some(amount) = amount else {
        return String::new();
    };
    match unit.as_str() {
        Some(unit) if unit == Unit::UsdMicrocents.as_str() => {
            let text = dollars(amount);
            let (sign, rest) = text.split_at(usize::from(amount < 0));
            let (whole, places) = rest[1..].split_once('.').unwrap_or((&rest[1..], "00"));
            let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
            format!("{sign}${whole}.{places}")
        }
        unit => {
            let unit = unit.unwrap_or_default().to_lowercase().replace('_', " ");
            format!("{} {unit}", grouped(amount))
        }
    }
}

/// 1234567 as `1,234,567`.
fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

/// The share of `part` in `whole`, in percent, between 0 and 100, with one place.
fn share(part: i64, whole: i64) -> f64 {
    let share = part as f64 * 100.0 / whole.max(1) as f64;
    (share.clamp(0.0, 100.0) * 10.0).round() / 10.0
}

/// A length of time in its largest unit: `3 days`.
fn until(ms: i64) -> String {
    let minutes = ms / 60_000;
    let (number, unit) = match minutes {
        ..=0 => return "less than a minute".to_owned(),
        1..=119 => (minutes, "minute"),
        120..=2_879 => ((minutes + 30) / 60, "hour"),
        _ => ((minutes + 720) / 1_440, "day"),
    };
    counted(number, unit)
}

/// `1 budget`, `2,000 budgets`.
fn counted(number: i64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_readable_and_exact() {
        let money = Value::from("USD_MICROCENTS");
        assert_eq!(in_words(&money, Some(512_345_678)), "$5.12345678");
        let millions = in_words(&money, Some(-123_456_700_000_001));
        assert_eq!(millions, "-$1,234,567.00000001");
        let tokens = Value::from("TOKENS");
        for (amount, text) in [
            (0, "0 tokens"),
            (999, "999 tokens"),
            (1_000, "1,000 tokens"),
            (-12_345_678, "-12,345,678 tokens"),
        ] {
            assert_eq!(in_words(&tokens, Some(amount)), text);
        }
        assert_eq!(
            in_words(&tokens, Some(i64::MAX)),
            "9,223,372,036,854,775,807 tokens"
        );
    }

    #[test]
    fn times_are_rounded_to_a_unit() {
        let minute = 60_000;
        for (ms, text) in [
            (-1, "less than a minute"),
            (minute, "1 minute"),
            (119 * minute, "119 minutes"),
            (149 * minute, "2 hours"),
            (3 * 24 * 60 * minute - 1, "3 days"),
        ] {
            assert_eq!(until(ms), text);
        }
    }

    #[test]
    fn shares_stay_within_a_bar() {
        assert_eq!(
            [share(1, 3), share(5, 0), share(-1, 3), share(i64::MAX, 1)],
            [33.3, 100.0, 0.0, 100.0]
        );
    }
}
