//! Parsers of single settings, and why a configuration is refused.

use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::builder::{BoolishValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, value_parser};

use crate::domain::ids::TenantId;

/// Why a configuration is refused. Names the variables; never holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value that its parser accepted, but that is invalid.
    #[error("{variable}: {reason}")]
    Value {
        /// The environment variable.
        variable: &'static str,
        /// Why it is refused.
        reason: String,
    },
    /// Two settings that cannot be combined.
    #[error("{first} and {second} contradict each other: {reason}")]
    Contradiction {
        /// One variable.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// Why they cannot be combined.
        reason: &'static str,
    },
}

impl ConfigError {
    /// The value of a variable is refused. The reason must not repeat a secret.
    pub(crate) fn value(variable: &'static str, reason: impl ToString) -> Self {
        let reason = reason.to_string();
        Self::Value { variable, reason }
    }
}

/// Reads a time in milliseconds.
pub(super) fn ms(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = Duration> {
    let number = value_parser!(u64).range(range);
    number.map(Duration::from_millis)
}

/// Reads a number of days.
pub(super) fn days(range: RangeInclusive<i64>) -> impl TypedValueParser<Value = Duration> {
    let number = value_parser!(u32).range(range);
    number.map(|days| Duration::from_secs(86_400) * days)
}

/// Reads `true` or `false`, `yes` or `no`, `1` or `0`. For a flag that is [`OnOrOff`].
pub(super) fn boolish() -> impl TypedValueParser<Value = bool> {
    BoolishValueParser::new()
}

/// A flag that is off by default. Alone, without a value, it is on.
pub(super) trait OnOrOff {
    fn on_or_off(self) -> Self;
}

impl OnOrOff for Arg {
    fn on_or_off(self) -> Self {
        self.value_name("true|false")
            .default_value("false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
    }
}

/// Parses a setting with a function. The error names the variable and does not repeat the value, which may be secret.
#[derive(Clone)]
pub(super) struct Setting<R>(pub(super) R);

impl<T, E, R> TypedValueParser for Setting<R>
where
    T: Clone + Send + Sync + 'static,
    E: Display,
    R: Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let flag = arg.and_then(Arg::get_long).unwrap_or_default();
        let variable = flag.to_uppercase().replace('-', "_");
        let refused = |reason: &dyn Display| {
            let message = format!("BUDGET_{variable} (--{flag}): {reason}\n");
            clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        };
        let text = value.to_str().ok_or_else(|| refused(&"it is not UTF-8"))?;
        (self.0)(text).map_err(|error| refused(&error))
    }
}

/// Ids of tenants, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantList(pub Vec<TenantId>);

impl TenantList {
    /// Reads ids, comma-separated; blank means none.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut list = Vec::new();
        for name in text.split(',').map(str::trim) {
            if name.is_empty() {
                continue;
            }
            let tenant = TenantId::parse(name);
            let tenant = tenant.ok_or_else(|| format!("`{name}` is not a tenant id"))?;
            if !list.contains(&tenant) {
                list.push(tenant);
            }
        }
        Ok(Self(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tenants_has_no_duplicates() {
        let list = TenantList::parse(" acme, bolt,acme,,").expect("ids");
        let names: Vec<_> = list.0.iter().map(TenantId::as_str).collect();
        assert_eq!(names, ["acme", "bolt"]);
        assert_eq!(TenantList::parse("").expect("none"), TenantList::default());
        let refused = TenantList::parse("acme,a b").expect_err("no id");
        assert!(refused.contains("`a b`"), "{refused}");
    }
}
