//! Records: the hashes in which things are stored, and the reading of their fields.

use std::collections::HashMap;

use super::amount::Unit;
use super::moment::Moment;
use super::scope::ScopePath;

/// The fields of one stored hash: a tenant, a ledger, a reservation, …
#[derive(Debug, Clone, Default)]
pub struct Record {
    fields: HashMap<String, String>,
}

/// A field of a record is missing or is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` of the record is missing or unreadable")]
pub struct RecordError {
    /// Name of the field.
    pub field: String,
}

impl RecordError {
    /// About a field.
    pub fn of(field: &str) -> Self {
        Self {
            field: field.to_owned(),
        }
    }
}

impl Record {
    /// Takes names and values, in turn.
    pub fn from_pairs(pairs: Vec<String>) -> Self {
        let mut fields = HashMap::with_capacity(pairs.len() / 2);
        let mut pairs = pairs.into_iter();
        while let (Some(name), Some(value)) = (pairs.next(), pairs.next()) {
            fields.insert(name, value);
        }
        Self { fields }
    }

    /// Takes the values of named fields, in the order of the names; what is missing is left out.
    pub fn from_fields(names: &[&str], values: Vec<Option<String>>) -> Self {
        let pairs = names.iter().zip(values);
        let fields = pairs.filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
        Self {
            fields: fields.collect(),
        }
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// A field, if it is there.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// All names and values, in no order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.fields.iter();
        fields.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A field that must be there.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn text(&self, name: &str) -> Result<&str, RecordError> {
        self.get(name).ok_or_else(|| RecordError::of(name))
    }

    /// An integer that must be there.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn integer(&self, name: &str) -> Result<i64, RecordError> {
        let value = self.text(name)?;
        value.parse().map_err(|_| RecordError::of(name))
    }

    /// An integer that may be missing.
    ///
    /// # Errors
    /// [`RecordError`] when it is there and is none.
    pub fn optional_integer(&self, name: &str) -> Result<Option<i64>, RecordError> {
        self.get(name).map(|_| self.integer(name)).transpose()
    }

    /// A word that must be there and be known.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn word<T>(&self, name: &str, parse: fn(&str) -> Option<T>) -> Result<T, RecordError> {
        parse(self.text(name)?).ok_or_else(|| RecordError::of(name))
    }

    /// A word that may be missing.
    ///
    /// # Errors
    /// [`RecordError`] when it is there and is not known.
    pub fn optional_word<T>(
        &self,
        name: &str,
        parse: fn(&str) -> Option<T>,
    ) -> Result<Option<T>, RecordError> {
        self.get(name).map(|_| self.word(name, parse)).transpose()
    }

    /// A time in milliseconds that must be there.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn moment(&self, name: &str) -> Result<Moment, RecordError> {
        Moment::from_ms(self.integer(name)?).ok_or_else(|| RecordError::of(name))
    }

    /// A time in milliseconds that may be missing.
    ///
    /// # Errors
    /// [`RecordError`] when it is there and is none.
    pub fn optional_moment(&self, name: &str) -> Result<Option<Moment>, RecordError> {
        self.get(name).map(|_| self.moment(name)).transpose()
    }

    /// The unit that all amounts of the record count.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn unit(&self) -> Result<Unit, RecordError> {
        Unit::parse(self.text("unit")?).ok_or_else(|| RecordError::of("unit"))
    }

    /// The deepest scope of the subject.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn scope_path(&self) -> Result<ScopePath, RecordError> {
        ScopePath::parse(self.text("scope_path")?).ok_or_else(|| RecordError::of("scope_path"))
    }
}
