//! Objects of the client's own.

use std::fmt;

use serde_json::value::RawValue;

use crate::domain::record::stored_text;

/// A JSON object that belongs to the client: kept and returned as it was sent, never looked into.
#[derive(Clone)]
pub struct FreeObject(Box<RawValue>);

impl FreeObject {
    /// The object without white space, as it is stored.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// From the stored form. `None` if that is no JSON object.
    pub fn from_stored(text: String) -> Option<Self> {
        let is_object = text.starts_with('{');
        RawValue::from_string(text)
            .ok()
            .filter(|_| is_object)
            .map(Self)
    }
}

stored_text!(
    FreeObject,
    |text| Self::from_stored(text.to_owned()),
    |object| Some(object.as_str().to_owned())
);

impl fmt::Debug for FreeObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FreeObject({} bytes)", self.0.get().len())
    }
}

impl PartialEq for FreeObject {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for FreeObject {}

impl serde::Serialize for FreeObject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
