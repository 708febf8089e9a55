//! The canonical form of RFC 8785 of what a value serializes to, written without a tree of values between.

use std::cmp::Ordering;
use std::fmt::{Display, Write as _};

use serde::ser::{
    Error, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer,
};

use super::canonical::{
    Form, is_exact_integer, is_rounded, push_string, utf16_order, write_number,
};

/// Bytes of most responses, at most.
const CAPACITY: usize = 1_024;

/// An integer of so many characters is below 2^53 either way.
const SHORT_DIGITS: usize = 15;

/// The value is of a kind that only its text knows, such as raw JSON.
#[derive(Debug, thiserror::Error)]
#[error("a kind of value that is written as text")]
pub(super) struct AsText;

impl Error for AsText {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

type Written = Result<(), AsText>;
type Never = Impossible<(), AsText>;

/// Writes one value.
pub(super) struct Writer<'w> {
    pub text: String,
    /// The first integer that the form has rounded.
    pub rounded: Option<String>,
    /// Members that the outermost object does not get.
    without: &'w [&'w str],
    /// The members so far of all objects that are open.
    members: Vec<Place>,
    /// An object that is being sorted.
    unsorted: String,
}

/// Where a member of an open object is in the text: its name in quotes, a colon, its value, a comma.
#[derive(Clone, Copy)]
struct Place {
    /// The first bytes of the name.
    prefix: u64,
    start: usize,
    name_end: usize,
    end: usize,
}

impl Place {
    /// The order of two names, which have no escapes. Most ASCII ones differ in their first bytes.
    fn order(&self, other: &Self, text: &str) -> Ordering {
        const NOT_ASCII: u64 = 0x8080_8080_8080_8080;
        let name = |place: &Self| &text[place.start + 1..place.name_end - 1];
        let is_told = self.prefix != other.prefix && (self.prefix | other.prefix) & NOT_ASCII == 0;
        match is_told {
            true => self.prefix.cmp(&other.prefix),
            false => utf16_order(name(self), name(other)),
        }
    }
}

/// The first bytes of a name as a number; behind a shorter one there are zeros, which no name has.
fn prefix(name: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = name.len().min(bytes.len());
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

impl<'w> Writer<'w> {
    pub fn without(without: &'w [&'w str]) -> Self {
        Self {
            text: String::with_capacity(CAPACITY),
            rounded: None,
            without,
            members: Vec::new(),
            unsorted: String::new(),
        }
    }

    fn integer(&mut self, integer: impl Display) -> Written {
        let start = self.text.len();
        let _ = write!(self.text, "{integer}");
        // Most have fewer digits than 2^53.
        let written = &self.text[start..];
        if written.len() <= SHORT_DIGITS || is_exact_integer(written) {
            return Ok(());
        }
        let literal = self.text.split_off(start);
        write_number(&literal, &mut self.text, Form::Rfc8785);
        if self.rounded.is_none() && is_rounded(&literal) {
            self.rounded = Some(literal);
        }
        Ok(())
    }
}

macro_rules! integers {
    ($($method:ident($type:ty))*) => { $(
        fn $method(self, integer: $type) -> Written {
            self.integer(integer)
        }
    )* };
}

impl<'s, 'w> Serializer for &'s mut Writer<'w> {
    type Ok = ();
    type Error = AsText;
    type SerializeSeq = Items<'s, 'w>;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Members<'s, 'w>;
    type SerializeStruct = Members<'s, 'w>;
    type SerializeStructVariant = Never;

    integers! {
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
    }

    fn serialize_bool(self, value: bool) -> Written {
        self.text.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_f32(self, _: f32) -> Written {
        Err(AsText)
    }

    fn serialize_f64(self, number: f64) -> Written {
        if !number.is_finite() {
            return Err(AsText);
        }
        let mut buffer = ryu_js::Buffer::new();
        self.text.push_str(buffer.format_finite(number));
        Ok(())
    }

    fn serialize_char(self, letter: char) -> Written {
        self.serialize_str(letter.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Written {
        push_string(text, &mut self.text);
        Ok(())
    }

    fn serialize_bytes(self, _: &[u8]) -> Written {
        Err(AsText)
    }

    fn serialize_none(self) -> Written {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        self.text.push_str("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Written {
        Err(AsText)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, AsText> {
        self.text.push('[');
        Ok(Items(self))
    }

    fn serialize_tuple(self, _: usize) -> Result<Never, AsText> {
        Err(AsText)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Never, AsText> {
        Err(AsText)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, AsText> {
        Err(AsText)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, AsText> {
        let object = Members {
            start: self.text.len(),
            members_start: self.members.len(),
            named: None,
            writer: self,
        };
        object.writer.text.push('{');
        Ok(object)
    }

    fn serialize_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStruct, AsText> {
        // Raw JSON and numbers of any length are structures of such a name.
        match name.starts_with('$') {
            true => Err(AsText),
            false => self.serialize_map(None),
        }
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, AsText> {
        Err(AsText)
    }
}

/// An array whose items are being written, each with a comma behind it.
pub(super) struct Items<'s, 'w>(&'s mut Writer<'w>);

impl SerializeSeq for Items<'_, '_> {
    type Ok = ();
    type Error = AsText;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Written {
        item.serialize(&mut *self.0)?;
        self.0.text.push(',');
        Ok(())
    }

    fn end(self) -> Written {
        close(&mut self.0.text, ']');
        Ok(())
    }
}

/// An object whose members are being written, each with a comma behind it. Once it is complete they are sorted.
pub(super) struct Members<'s, 'w> {
    writer: &'s mut Writer<'w>,
    /// Where the object is in the text, and its members among those of all objects.
    start: usize,
    members_start: usize,
    /// Start and end of the name of the next member; none while it is left out.
    named: Option<(usize, usize)>,
}

impl Members<'_, '_> {
    fn is_left_out(&self, name: &str) -> bool {
        let is_outermost = self.start == 0;
        is_outermost && self.writer.without.contains(&name)
    }

    fn sort(&mut self) {
        let Writer {
            text,
            members,
            unsorted,
            ..
        } = &mut *self.writer;
        let members = &mut members[self.members_start..];
        let order = |a: &Place, b: &Place| a.order(b, text);
        if members.is_sorted_by(|a, b| order(a, b).is_lt()) {
            return;
        }
        unsorted.clear();
        unsorted.push_str(&text[self.start..]);
        members.sort_unstable_by(order);
        text.truncate(self.start + 1);
        for place in members {
            text.push_str(&unsorted[place.start - self.start..place.end - self.start]);
        }
    }
}

impl SerializeMap for Members<'_, '_> {
    type Ok = ();
    type Error = AsText;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, name: &T) -> Written {
        let name_start = self.writer.text.len();
        name.serialize(&mut *self.writer)?;
        let written = &self.writer.text[name_start..];
        if !written.starts_with('"') || written.contains('\\') {
            return Err(AsText);
        }
        if self.is_left_out(&written[1..written.len() - 1]) {
            self.writer.text.truncate(name_start);
            return Ok(());
        }
        self.named = Some((name_start, self.writer.text.len()));
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        let Some((start, name_end)) = self.named.take() else {
            return Ok(());
        };
        self.writer.text.push(':');
        value.serialize(&mut *self.writer)?;
        self.writer.text.push(',');
        let end = self.writer.text.len();
        self.writer.members.push(Place {
            prefix: prefix(&self.writer.text[start + 1..name_end - 1]),
            start,
            name_end,
            end,
        });
        Ok(())
    }

    fn end(mut self) -> Written {
        self.sort();
        self.writer.members.truncate(self.members_start);
        close(&mut self.writer.text, '}');
        Ok(())
    }
}

impl SerializeStruct for Members<'_, '_> {
    type Ok = ();
    type Error = AsText;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Written {
        // The names of our types need no escapes, so they are not looked through.
        debug_assert!(!name.contains(|letter| letter < ' ' || ['"', '\\'].contains(&letter)));
        if !self.is_left_out(name) {
            let start = self.writer.text.len();
            self.writer.text.push('"');
            self.writer.text.push_str(name);
            self.writer.text.push('"');
            self.named = Some((start, self.writer.text.len()));
        }
        self.serialize_value(value)
    }

    fn end(self) -> Written {
        SerializeMap::end(self)
    }
}

/// Closes an array or an object, whose last part has a comma behind it.
fn close(text: &mut String, bracket: char) {
    if text.ends_with(',') {
        text.pop();
    }
    text.push(bracket);
}

#[cfg(test)]
mod tests;
