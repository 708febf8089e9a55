//! Records: the hashes in which things are stored, and how values lie in their fields.

use std::collections::HashMap;
use std::fmt;

/// The fields of one stored hash: a tenant, a ledger, a reservation, … `{:?}` shows their names alone: some hold secrets.
#[derive(Clone, Default)]
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

    /// The same record with a field that is stored elsewhere, such as the id in the record's key.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Takes the values of named fields, in the order of the names; what is missing is left out.
    pub fn from_fields(names: &[&str], values: Vec<Option<String>>) -> Self {
        let pairs = names.iter().zip(values);
        let fields = pairs.filter_map(|(name, value)| Some((*name, value?)));
        fields.collect()
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
        self.read(name)
    }

    /// A value that must be there.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn read<T: Recorded>(&self, field: &str) -> Result<T, RecordError> {
        self.optional(field)?.ok_or_else(|| RecordError::of(field))
    }

    /// A value that may be missing.
    ///
    /// # Errors
    /// [`RecordError`] when it is there and cannot be read.
    pub fn optional<T: Recorded>(&self, field: &str) -> Result<Option<T>, RecordError> {
        T::read_from(self, field)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Record {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        let fields = pairs.map(|(name, value)| (name.into(), value.into()));
        Self {
            fields: fields.collect(),
        }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.fields.keys()).finish()
    }
}

/// A type whose values are the text of one field.
pub trait Stored: Sized {
    /// Reads the text of a field.
    fn from_field(field: &str, text: &str) -> Option<Self>;

    /// The text for a field; `None`: the value is as good as no field.
    fn to_field(&self, field: &str) -> Option<String>;
}

/// Declares such a type: how its text is read, and how it is written where that is not as `Display` does.
macro_rules! stored_text {
    ($type:ty, $read:expr) => {
        $crate::domain::record::stored_text!($type, $read, |value| Some(value.to_string()));
    };
    ($type:ty, $read:expr, $write:expr) => {
        impl $crate::domain::record::Stored for $type {
            fn from_field(_: &str, text: &str) -> Option<Self> {
                let read: fn(&str) -> Option<Self> = $read;
                read(text)
            }

            fn to_field(&self, _: &str) -> Option<String> {
                let write: fn(&Self) -> Option<String> = $write;
                write(self)
            }
        }
    };
}
pub(crate) use stored_text;

/// A type that members of records can have. Made by [`object!`](crate::domain::fields::object), or by [`Stored`].
pub trait Recorded: Sized {
    /// Reads the value from its field, or from several; `None` where the field is missing.
    ///
    /// # Errors
    /// [`RecordError`] names the field that cannot be read.
    fn read_from(record: &Record, field: &str) -> Result<Option<Self>, RecordError>;

    /// The fields that the value lies in.
    fn fields_of(field: &'static str) -> Vec<&'static str> {
        vec![field]
    }
}

/// A type that members of requests can have whose values are written to records.
pub trait Written {
    /// Appends what the value makes of its field, or of several.
    fn write_to(&self, change: FieldChange, changes: &mut Vec<FieldChange>);

    /// Appends that the field, or each of several, is removed.
    fn clear(change: FieldChange, changes: &mut Vec<FieldChange>) {
        changes.push(change);
    }
}

/// What a request does to one field of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldChange {
    /// Member of the request.
    pub member: &'static str,
    /// The same as audit entries have it: `metadata.` and the member.
    pub audited: &'static str,
    /// Field of the record.
    pub field: &'static str,
    /// What it becomes; `None`: it is removed.
    pub value: Option<String>,
}

impl FieldChange {
    /// As scripts take it: the field, then `=` and its value, or nothing where it is removed.
    pub fn sent(&self) -> (&'static str, Option<String>) {
        let value = self.value.as_ref().map(|value| format!("={value}"));
        (self.field, value)
    }
}

/// Names and values of the fields that are set.
pub fn set_fields(changes: Vec<FieldChange>) -> Vec<(&'static str, String)> {
    let set = changes.into_iter();
    set.filter_map(|change| Some((change.field, change.value?)))
        .collect()
}

/// What audit entries have of changes, except the data that operators choose. A removed value is an empty text.
pub fn audited(changes: Vec<FieldChange>) -> Vec<(&'static str, String)> {
    let changes = changes
        .into_iter()
        .filter(|change| change.member != "metadata");
    changes
        .map(|change| (change.audited, change.value.unwrap_or_default()))
        .collect()
}

impl<T: Stored> Recorded for T {
    fn read_from(record: &Record, field: &str) -> Result<Option<Self>, RecordError> {
        let read = |text| T::from_field(field, text).ok_or_else(|| RecordError::of(field));
        record.get(field).map(read).transpose()
    }
}

impl<T: Recorded> Recorded for Option<T> {
    fn read_from(record: &Record, field: &str) -> Result<Option<Self>, RecordError> {
        T::read_from(record, field).map(|value| value.map(Some))
    }

    fn fields_of(field: &'static str) -> Vec<&'static str> {
        T::fields_of(field)
    }
}

impl<T: Stored> Written for T {
    fn write_to(&self, mut change: FieldChange, changes: &mut Vec<FieldChange>) {
        change.value = self.to_field(change.field);
        changes.push(change);
    }
}

/// Absent members keep their values.
impl<T: Written> Written for Option<T> {
    fn write_to(&self, change: FieldChange, changes: &mut Vec<FieldChange>) {
        if let Some(value) = self {
            value.write_to(change, changes);
        }
    }

    fn clear(change: FieldChange, changes: &mut Vec<FieldChange>) {
        T::clear(change, changes);
    }
}

stored_text!(String, |text| Some(text.to_owned()));
stored_text!(i64, |text| text.parse().ok());
stored_text!(bool, |text| Some(text == "1"), |flag| Some(
    if *flag { "1" } else { "0" }.to_owned()
));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_names_of_fields_alone() {
        let record = Record::default().with("secret_hash", "s3cret");
        assert_eq!(format!("{record:?}"), r#"{"secret_hash"}"#);
    }
}
