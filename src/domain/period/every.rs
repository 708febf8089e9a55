//! How often a period begins.

use std::fmt;

use jiff::Span;
use serde_json::json;

use crate::domain::fields::plain_field;
use crate::domain::record::stored_text;

const DAY_MS: i64 = 86_400_000;

/// What repeats, which determines how short it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    /// The period of a budget: an hour or longer.
    #[default]
    Period,
    /// The window of a limit: a minute or longer.
    Window,
}

impl Purpose {
    /// The requirement on a text, for messages: `must be …`.
    pub fn wanted(self) -> &'static str {
        match self {
            Self::Period => {
                "hours, days, weeks, months or years as an ISO 8601 duration of one component, from PT1H to P10Y, such as P1M"
            }
            Self::Window => {
                "minutes, hours, days, weeks, months or years as an ISO 8601 duration of one component, from PT1M to P10Y, such as PT1H"
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Component {
    Minutes,
    Hours,
    Days,
    Weeks,
    Months,
    Years,
}

impl Component {
    const ALL: [Self; 6] = [
        Self::Minutes,
        Self::Hours,
        Self::Days,
        Self::Weeks,
        Self::Months,
        Self::Years,
    ];

    /// What stands before and after the number.
    fn designators(self) -> (&'static str, char) {
        match self {
            Self::Minutes => ("PT", 'M'),
            Self::Hours => ("PT", 'H'),
            Self::Days => ("P", 'D'),
            Self::Weeks => ("P", 'W'),
            Self::Months => ("P", 'M'),
            Self::Years => ("P", 'Y'),
        }
    }

    /// Its length; of months and years the average.
    fn average_ms(self) -> i64 {
        match self {
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
            Self::Days => DAY_MS,
            Self::Weeks => 7 * DAY_MS,
            Self::Months => 2_629_746_000,
            Self::Years => 12 * 2_629_746_000,
        }
    }

    /// The greatest number: ten years, of which at most three are leap years.
    fn max(self) -> i64 {
        match self {
            Self::Months => 120,
            Self::Years => 10,
            _ => 3_653 * DAY_MS / self.average_ms(),
        }
    }
}

/// The distance between the starts of two periods: a number of minutes, hours, days, weeks, months or years, at most ten years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Every {
    number: i64,
    component: Component,
}

impl Every {
    /// Reads an ISO 8601 duration that has one component, and a whole number without sign or leading zeros.
    pub fn parse(text: &str, purpose: Purpose) -> Option<Self> {
        let read = |component: Component| {
            let (before, after) = component.designators();
            let digits = text.strip_prefix(before)?.strip_suffix(after)?;
            let plain =
                !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.parse().ok()?;
            (plain && number <= component.max()).then_some(Self { number, component })
        };
        let every = Component::ALL.into_iter().find_map(read)?;
        (purpose == Purpose::Window || every.component != Component::Minutes).then_some(every)
    }

    /// Its length, which for months and years is the average, for days and weeks that of a calendar without shifts.
    pub(super) fn average_ms(self) -> i64 {
        self.number * self.component.average_ms()
    }

    /// Whether each is as long as the next in every zone.
    pub(super) fn is_absolute(self) -> bool {
        matches!(self.component, Component::Minutes | Component::Hours)
    }

    /// Whether it is a day.
    pub(super) fn is_one_day(self) -> bool {
        (self.number, self.component) == (1, Component::Days)
    }

    /// Whether each is as long as the next in a zone without shifts.
    pub(super) fn is_regular(self) -> bool {
        !matches!(self.component, Component::Months | Component::Years)
    }

    /// This many of them. Nothing within 19,998 years is too long for a span.
    pub(super) fn times(self, k: i64) -> Span {
        let (span, number) = (Span::new(), k * self.number);
        match self.component {
            Component::Minutes => span.minutes(number),
            Component::Hours => span.hours(number),
            Component::Days => span.days(number),
            Component::Weeks => span.weeks(number),
            Component::Months => span.months(number),
            Component::Years => span.years(number),
        }
    }
}

impl fmt::Display for Every {
    /// The text that it was read from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = self.component.designators();
        write!(f, "{before}{}{after}", self.number)
    }
}

plain_field!(
    Every,
    Purpose,
    |_, _| json!({"type": "string", "pattern": "^P([1-9][0-9]*[DWMY]|T[1-9][0-9]*[HM])$", "example": "P1M"}),
    |value, purpose| {
        let purpose = *purpose;
        value.parsed(
            |text| Every::parse(text, purpose),
            || purpose.wanted().to_owned(),
        )
    }
);
stored_text!(Every, |text| Every::parse(text, Purpose::Window));

impl serde::Serialize for Every {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
