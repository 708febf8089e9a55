//! Types of members with a special meaning: [`Patch`] in updates, [`Unsent`] in responses.

use std::marker::PhantomData;

use serde_json::Value as Schema;

use super::Value;
use super::components::Components;
use super::field::{Field, Read};
use crate::domain::json::Json;
use crate::domain::record::{FieldChange, Record, RecordError, Recorded, Written};

/// A member that is described and that the service never sends, because it has nothing of the kind.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Unsent<T>(PhantomData<T>);

impl<T> Default for Unsent<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Field> Field for Unsent<T> {
    type Rules = T::Rules;
    type Inner = T::Inner;

    fn schema(rules: &T::Rules, components: &mut Components) -> Schema {
        T::schema(rules, components)
    }

    fn absent(_: Option<T::Inner>) -> Option<Self> {
        Some(Self::default())
    }

    fn is_absent(&self) -> bool {
        true
    }
}

impl<T> Written for Unsent<T> {
    fn write_to(&self, _: FieldChange, _: &mut Vec<FieldChange>) {}
}

impl<T> Recorded for Unsent<T> {
    fn read_from(_: &Record, _: &str) -> Result<Option<Self>, RecordError> {
        Ok(None)
    }

    fn fields_of(_: &'static str) -> Vec<&'static str> {
        Vec::new()
    }
}

/// What a request does to a value that may be stored.
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

    /// What is set, if anything is.
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
