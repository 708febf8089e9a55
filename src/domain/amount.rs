//! Amounts of one unit. An amount carries its unit, so that tokens are never added to money.

use std::fmt;

use serde::Serialize;
use utoipa::ToSchema;

use super::fields::Value;
use super::words::Word;

/// What a budget counts. The order is that of lists and of `expected_units`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Unit {
    /// Hundred-millionths of a US dollar.
    UsdMicrocents,
    /// Tokens of a language model.
    Tokens,
    /// Credits of the operator's own making.
    Credits,
    /// Points of a risk score.
    RiskPoints,
}

impl Unit {
    /// Every unit, in order.
    pub const ALL: [Self; 4] = [
        Self::UsdMicrocents,
        Self::Tokens,
        Self::Credits,
        Self::RiskPoints,
    ];

    /// The name on the wire and in keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UsdMicrocents => "USD_MICROCENTS",
            Self::Tokens => "TOKENS",
            Self::Credits => "CREDITS",
            Self::RiskPoints => "RISK_POINTS",
        }
    }

    /// The place in the order, 0 to 3.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Reads the name, case-sensitively.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.as_str() == text)
    }

    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        value.one_of(Self::parse, &Self::ALL.map(Self::as_str))
    }
}

impl Word for Unit {
    const WORDS: &'static [&'static str] = &[
        Self::UsdMicrocents.as_str(),
        Self::Tokens.as_str(),
        Self::Credits.as_str(),
        Self::RiskPoints.as_str(),
    ];

    fn as_str(self) -> &'static str {
        self.as_str()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A quantity of one unit, 0 to 2^63−1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// What is counted.
    unit: Unit,
    /// How much.
    #[serde(rename = "amount")]
    #[schema(minimum = 0)]
    value: i64,
}

impl Amount {
    /// `None` when the value is negative.
    pub fn new(unit: Unit, value: i64) -> Option<Self> {
        (value >= 0).then_some(Self { unit, value })
    }

    /// Nothing of that unit.
    pub fn zero(unit: Unit) -> Self {
        Self { unit, value: 0 }
    }

    /// What is counted.
    pub fn unit(self) -> Unit {
        self.unit
    }

    /// How much, never negative.
    pub fn value(self) -> i64 {
        self.value
    }

    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        value.object(|object| {
            let unit = object.required("unit", Unit::read);
            let value = object.required("amount", |value| value.integer(0..=i64::MAX));
            Some(Self {
                unit: unit?,
                value: value?,
            })
        })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.unit)
    }
}

/// A quantity of one unit that may be negative: what remains of a budget that is in debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignedAmount {
    /// What is counted.
    unit: Unit,
    /// How much; negative when more was spent than allocated.
    #[serde(rename = "amount")]
    value: i64,
}

impl SignedAmount {
    /// Any value is legal.
    pub fn new(unit: Unit, value: i64) -> Self {
        Self { unit, value }
    }

    /// What is counted.
    pub fn unit(self) -> Unit {
        self.unit
    }

    /// How much.
    pub fn value(self) -> i64 {
        self.value
    }
}

impl From<Amount> for SignedAmount {
    fn from(amount: Amount) -> Self {
        Self {
            unit: amount.unit,
            value: amount.value,
        }
    }
}

impl fmt::Display for SignedAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_read_back_by_name_and_stand_in_order() {
        for (index, unit) in Unit::ALL.into_iter().enumerate() {
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
