//! The place of a value in a document, for messages.

use std::fmt;

use crate::domain::printable::printable_up_to;

/// The longest place that a message shows, in characters.
const CHARS_MAX: usize = 200;

/// The place of a value, from the innermost name outwards. It is written out only for a message.
#[derive(Debug, Clone, Copy)]
pub enum Place<'p> {
    /// The document itself, which has a name of its own, or none.
    Root(&'p str),
    /// A member of an object.
    Member(&'p Place<'p>, &'p str),
    /// An item of an array.
    Item(&'p Place<'p>, usize),
}

impl Place<'_> {
    /// A document without a name.
    pub const BODY: Place<'static> = Place::Root("");

    /// Fit for a message: names of members are foreign text.
    pub fn printable(self) -> String {
        printable_up_to(&self.to_string(), CHARS_MAX)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::Member(Self::Root(""), name) => f.write_str(name),
            Self::Member(object, name) => write!(f, "{object}.{name}"),
            Self::Item(array, index) => write!(f, "{array}[{index}]"),
        }
    }
}
