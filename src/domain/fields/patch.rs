//! [`Patch`]: members of updates.

use serde_json::Value as Schema;

use super::Value;
use super::field::{Field, Read};
use super::schema::Components;
use crate::domain::json::Json;
use crate::domain::record::{FieldChange, Written};

/// The change of an optional stored value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Patch<T> {
    /// It stays as it is: the member is absent.
    #[default]
    Keep,
    /// It is taken out, or has its default again: the member is `null`.
    Clear,
    /// It gets this value.
    Set(T),
}

impl<T> Patch<T> {
    /// The value afterwards.
    pub fn apply(self, present: Option<T>) -> Option<T> {
        match self {
            Self::Keep => present,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }

    /// The value afterwards of a member that has a default.
    pub fn apply_or(self, present: T, default: T) -> T {
        self.apply(Some(present)).unwrap_or(default)
    }

    /// The new value, if one is set.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }
}

impl<T: Written> Written for Patch<T> {
    fn write_to(&self, change: FieldChange, changes: &mut Vec<FieldChange>) {
        match self {
            Self::Keep => {}
            Self::Set(value) => value.write_to(change, changes),
            Self::Clear => T::clear(change, changes),
        }
    }
}

impl<T: Field> Field for Patch<T> {
    type Rules = T::Rules;
    type Inner = T::Inner;

    fn schema(rules: &T::Rules, components: &mut Components) -> Schema {
        T::schema(rules, components)
    }

    fn absent(_: Option<T::Inner>) -> Option<Self> {
        Some(Self::Keep)
    }

    fn null(_: Option<T::Inner>) -> Option<Self> {
        Some(Self::Clear)
    }
}

impl<T: Read> Read for Patch<T> {
    fn read(value: Value<'_>, rules: &T::Rules) -> Option<Self> {
        T::read(value, rules).map(Self::Set)
    }

    fn is_null(json: &Json, rules: &T::Rules) -> bool {
        T::is_null(json, rules)
    }
}
