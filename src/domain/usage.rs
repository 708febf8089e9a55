//! What a tenant used, as the scripts count it: by combination of unit, scope, API key and action.

use super::amount::Unit;
use super::scope::Level;
use super::words::words;

/// How many months usage is kept, unless a setting says otherwise.
pub const USAGE_MONTHS_DEFAULT: u32 = 24;
/// How many days it is kept by day.
pub const USAGE_DAYS_DEFAULT: u32 = 40;

words! {
    /// What usage can be grouped by.
    UsageGroup: "snake_case" {
        /// UTC day.
        Day,
        /// UTC month.
        Month,
        /// Tenant.
        Tenant,
        /// Workspace of the subject.
        Workspace,
        /// Application of the subject.
        App,
        /// Workflow of the subject.
        Workflow,
        /// Agent of the subject.
        Agent,
        /// Set of tools of the subject.
        Toolset,
        /// Deepest scope of the subject.
        Scope,
        /// Kind of the action.
        ActionKind,
        /// Name of the action.
        ActionName,
        /// The API key that reserved, or reported the usage event.
        KeyId,
    }
}

impl UsageGroup {
    /// The level of a scope that it is.
    pub fn level(self) -> Option<Level> {
        Level::parse(self.as_str())
    }

    /// Whether it tells when.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Day | Self::Month)
    }
}

/// What is counted together: what charges have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Combination<'a> {
    /// Unit.
    pub unit: Unit,
    /// What is known of it; `None` for what was counted as `other`.
    pub parts: Option<Parts<'a>>,
}

/// The rest of a combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The scope below the tenant; empty for the tenant itself.
    pub path: &'a str,
    /// The API key.
    pub key_id: &'a str,
    /// Kind of the action.
    pub kind: &'a str,
    /// Name of the action.
    pub name: &'a str,
}

impl Parts<'_> {
    /// The scope. `tenant`: the segment of the tenant.
    pub fn scope(self, tenant: &str) -> String {
        match self.path {
            "" => tenant.to_owned(),
            path => format!("{tenant}/{path}"),
        }
    }
}

impl<'a> Combination<'a> {
    /// Reads a field of a day's hash; `None` where it is none.
    pub fn parse(field: &'a str) -> Option<Self> {
        let (unit, rest) = field.split_once(' ')?;
        let unit = Unit::parse(unit)?;
        if rest == "other" {
            return Some(Self { unit, parts: None });
        }
        let (path, rest) = rest.split_once(' ')?;
        let (key_id, rest) = rest.split_once(' ')?;
        let (bytes, rest) = rest.split_once(' ')?;
        let (kind, name) = rest.split_at_checked(bytes.parse().ok()?)?;
        let parts = Parts {
            path: if path == "-" { "" } else { path },
            key_id,
            kind,
            name: name.strip_prefix(' ')?,
        };
        Some(Self {
            unit,
            parts: Some(parts),
        })
    }
}

/// Sums of a combination or a group. One that went beyond 64 bits is saturated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// What was charged.
    pub charged: i64,
    /// How many charges there were.
    pub count: i64,
    /// What was given back.
    pub refunded: i64,
    /// Whether a sum is saturated.
    pub is_saturated: bool,
}

impl Used {
    /// Reads `<charged> <count>[ <refunded>][ +]`.
    pub fn parse(value: &str) -> Option<Self> {
        let mut words = value.split(' ').peekable();
        let number = |word: Option<&str>| word?.parse().ok().filter(|number| *number >= 0);
        let (charged, count) = (number(words.next())?, number(words.next())?);
        let refunded = words.next_if(|word| *word != "+");
        let refunded = refunded.map_or(Some(0), |word| number(Some(word)))?;
        let is_saturated = words.next_if_eq(&"+").is_some();
        words.next().is_none().then_some(Self {
            charged,
            count,
            refunded,
            is_saturated,
        })
    }

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        let mut sum = |a: i64, b: i64| {
            a.checked_add(b).unwrap_or_else(|| {
                self.is_saturated = true;
                i64::MAX
            })
        };
        let charged = sum(self.charged, other.charged);
        let refunded = sum(self.refunded, other.refunded);
        (self.charged, self.refunded) = (charged, refunded);
        self.count = self.count.saturating_add(other.count);
        self.is_saturated |= other.is_saturated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_combination_is_read_whatever_its_action_is_called() {
        let parts = |path, kind, name| {
            Some(Combination {
                unit: Unit::Tokens,
                parts: Some(Parts {
                    path,
                    key_id: "key_1",
                    kind,
                    name,
                }),
            })
        };
        for (field, read) in [
            (
                "TOKENS app:a key_1 3 llm gpt 4\n+",
                parts("app:a", "llm", "gpt 4\n+"),
            ),
            ("TOKENS - key_1 4 a  b c", parts("", "a  b", "c")),
            ("TOKENS - key_1 2 ä ö", parts("", "ä", "ö")),
            ("TOKENS - key_1 1 ä ö", None),
            ("TOKENS - key_1 9 llm gpt", None),
            ("TOKENS - key_1 3 llmgpt", None),
            ("PENNIES other", None),
            ("combinations", None),
            (
                "TOKENS other",
                Some(Combination {
                    unit: Unit::Tokens,
                    parts: None,
                }),
            ),
        ] {
            assert_eq!(Combination::parse(field), read, "{field}");
        }
    }

    #[test]
    fn totals_are_read_and_saturate() {
        let used = |charged, count, refunded, is_saturated| Used {
            charged,
            count,
            refunded,
            is_saturated,
        };
        for (value, read) in [
            ("5 2", Some(used(5, 2, 0, false))),
            ("5 2 1", Some(used(5, 2, 1, false))),
            ("9223372036854775807 2 +", Some(used(i64::MAX, 2, 0, true))),
            ("5 2 1 +", Some(used(5, 2, 1, true))),
            ("5", None),
            ("-5 2", None),
            ("5 2 1 2", None),
            ("5 2 + +", None),
        ] {
            assert_eq!(Used::parse(value), read, "{value}");
        }
        let mut sum = used(i64::MAX - 1, 1, 0, false);
        sum.add(used(1, 1, 0, false));
        assert_eq!(sum, used(i64::MAX, 2, 0, false));
        sum.add(used(1, 1, 0, false));
        assert_eq!(sum, used(i64::MAX, 3, 0, true));
    }
}
