//! Amounts of one unit. An amount carries its unit, so that tokens are never added to money.

use std::fmt;

use super::fields::object;
use super::record::{FieldChange, Record, RecordError, Recorded, Written};
use super::words::words;

words! {
    /// Unit of a budget. The order is that of lists and of `expected_units`.
    Unit: "SCREAMING_SNAKE_CASE" {
        /// Hundred-millionths of a US dollar.
        UsdMicrocents,
        /// Tokens of a language model.
        Tokens,
        /// Credits of the operator's own making.
        Credits,
        /// Points of a risk score.
        RiskPoints,
    }
}

impl Unit {
    /// The place in the order, 0 to 3.
    pub fn index(self) -> usize {
        self as usize
    }
}

object! {
    /// A quantity of one unit, 0 to 2^63−1.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Amount: Read + Serialize {
        /// Unit.
        unit: Unit,
        /// How much.
        value: i64 { name: "amount", range: 0.. },
    }
}

impl Amount {
    /// `None` when the value is negative.
    pub fn new(unit: Unit, value: i64) -> Option<Self> {
        (value >= 0).then_some(Self { unit, value })
    }

    /// Unit.
    pub fn unit(self) -> Unit {
        self.unit
    }

    /// How much, never negative.
    pub fn value(self) -> i64 {
        self.value
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.unit)
    }
}

object! {
    /// A quantity of one unit that may be negative: what remains of a budget that is in debt.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct SignedAmount: Serialize {
        /// Unit.
        unit: Unit,
        /// How much; negative when more was spent than allocated.
        value: i64 { name: "amount" },
    }
}

impl SignedAmount {
    /// Any value is legal.
    pub fn new(unit: Unit, value: i64) -> Self {
        Self { unit, value }
    }

    /// How much.
    pub fn value(self) -> i64 {
        self.value
    }
}

/// A figure of a ledger, in the record's unit.
impl Recorded for Amount {
    fn read_from(record: &Record, field: &str) -> Result<Option<Self>, RecordError> {
        let Some(value) = record.optional(field)? else {
            return Ok(None);
        };
        let amount = Self::new(record.read("unit")?, value);
        amount.map(Some).ok_or_else(|| RecordError::of(field))
    }
}

/// The figure alone: the record has its unit.
impl Written for Amount {
    fn write_to(&self, mut change: FieldChange, changes: &mut Vec<FieldChange>) {
        change.value = Some(self.value().to_string());
        changes.push(change);
    }
}

impl Recorded for SignedAmount {
    fn read_from(record: &Record, field: &str) -> Result<Option<Self>, RecordError> {
        Ok(Some(Self::new(
            record.read("unit")?,
            record.integer(field)?,
        )))
    }
}

/// Microcents of a US dollar.
pub const DOLLAR: i128 = 100_000_000;

/// An amount of money in dollars, to all the places that it has and at least two.
pub fn dollars(microcents: i64) -> String {
    let (sign, amount) = (
        if microcents < 0 { "-" } else { "" },
        i128::from(microcents).abs(),
    );
    let places = format!("{:08}", amount % DOLLAR);
    let cut = places.trim_end_matches('0').len().max(2);
    format!("{sign}${}.{}", amount / DOLLAR, &places[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_read_back_by_name_and_are_ordered() {
        for (index, unit) in Unit::ALL.iter().copied().enumerate() {
            assert_eq!(unit.index(), index);
            assert_eq!(Unit::parse(unit.as_str()), Some(unit));
            assert_eq!(serde_json::to_string(&unit).unwrap(), format!("\"{unit}\""));
        }
        assert_eq!(Unit::parse("tokens"), None);
        assert_eq!(Unit::parse("EUR"), None);
    }

    #[test]
    fn amounts_are_exact_and_show_the_unit_first() {
        let amount = Amount::new(Unit::Tokens, i64::MAX).unwrap();
        assert_eq!(
            serde_json::to_string(&amount).unwrap(),
            r#"{"unit":"TOKENS","amount":9223372036854775807}"#
        );
        assert_eq!(Amount::new(Unit::Tokens, -1), None);
        let signed = SignedAmount::new(Unit::Credits, i64::MIN);
        assert_eq!(
            serde_json::to_string(&signed).unwrap(),
            r#"{"unit":"CREDITS","amount":-9223372036854775808}"#
        );
    }
}
