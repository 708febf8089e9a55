//! Parsers of single settings.

use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::builder::{BoolishValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, value_parser};

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

/// Parses a setting with `read`. The error names the variable and does not repeat the value, which may be secret.
pub(super) fn setting<T, E, R>(read: R) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
    E: Display,
    R: Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
{
    Setting(read)
}

#[derive(Clone)]
struct Setting<R>(R);

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
