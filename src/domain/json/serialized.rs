//! What a value serializes to, without a detour over text.

use std::fmt::Display;

use serde::ser::{
    Error, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer,
};

use super::{Json, Name};

/// The value is of a kind that only the text knows, such as raw JSON.
#[derive(Debug, thiserror::Error)]
#[error("a kind of value that is written as text")]
pub(super) struct AsText;

impl Error for AsText {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

/// Makes a [`Json`] of a value, as reading its text would.
pub(super) struct ToJson;

type Made = Result<Json, AsText>;
type Never = Impossible<Json, AsText>;

macro_rules! integers {
    ($($method:ident($type:ty))*) => { $(
        fn $method(self, integer: $type) -> Made {
            Ok(Json::Number(integer.to_string()))
        }
    )* };
}

impl Serializer for ToJson {
    type Ok = Json;
    type Error = AsText;
    type SerializeSeq = Items;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Members;
    type SerializeStruct = Members;
    type SerializeStructVariant = Never;

    integers! {
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
    }

    fn serialize_bool(self, value: bool) -> Made {
        Ok(Json::Bool(value))
    }

    fn serialize_f32(self, _: f32) -> Made {
        Err(AsText)
    }

    fn serialize_f64(self, number: f64) -> Made {
        Ok(number.into())
    }

    fn serialize_char(self, letter: char) -> Made {
        Ok(Json::String(letter.into()))
    }

    fn serialize_str(self, text: &str) -> Made {
        Ok(text.into())
    }

    fn serialize_bytes(self, _: &[u8]) -> Made {
        Err(AsText)
    }

    fn serialize_none(self) -> Made {
        Ok(Json::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Made {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Made {
        Ok(Json::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Made {
        Ok(Json::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Made {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Made {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Made {
        Err(AsText)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Items, AsText> {
        Ok(Items(Vec::with_capacity(length.unwrap_or(0))))
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

    fn serialize_map(self, length: Option<usize>) -> Result<Members, AsText> {
        Ok(Members {
            members: Vec::with_capacity(length.unwrap_or(0)),
            name: String::new(),
        })
    }

    fn serialize_struct(self, name: &'static str, length: usize) -> Result<Members, AsText> {
        // Raw JSON and numbers of any length are structures of such a name.
        match name.starts_with('$') {
            true => Err(AsText),
            false => self.serialize_map(Some(length)),
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

/// The items of an array so far.
pub(super) struct Items(Vec<Json>);

impl SerializeSeq for Items {
    type Ok = Json;
    type Error = AsText;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), AsText> {
        self.0.push(item.serialize(ToJson)?);
        Ok(())
    }

    fn end(self) -> Made {
        Ok(Json::Array(self.0))
    }
}

/// The members of an object so far, and the name of the next one.
pub(super) struct Members {
    members: Vec<(Name, Json)>,
    name: String,
}

impl SerializeMap for Members {
    type Ok = Json;
    type Error = AsText;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, name: &T) -> Result<(), AsText> {
        match name.serialize(ToJson)? {
            Json::String(name) => {
                self.name = name;
                Ok(())
            }
            _ => Err(AsText),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), AsText> {
        let value = value.serialize(ToJson)?;
        let name = std::mem::take(&mut self.name);
        self.members.push((name.into(), value));
        Ok(())
    }

    fn end(self) -> Made {
        Ok(Json::Object(self.members))
    }
}

impl SerializeStruct for Members {
    type Ok = Json;
    type Error = AsText;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), AsText> {
        self.members.push((name.into(), value.serialize(ToJson)?));
        Ok(())
    }

    fn end(self) -> Made {
        Ok(Json::Object(self.members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::RawValue};

    use super::*;
    use crate::domain::json::FreeObject;

    #[derive(serde::Serialize)]
    enum Word {
        #[serde(rename = "A_WORD")]
        Unit,
        Of(u8),
    }

    #[derive(serde::Serialize)]
    struct Value {
        amount: i64,
        share: f64,
        none: Option<u8>,
        some: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        absent: Option<u8>,
        words: Vec<Word>,
        any: serde_json::Value,
    }

    #[test]
    fn it_is_what_the_text_says() {
        let any = json!({"b": [1, 2.50, -0.0, 1e30, u64::MAX, i64::MIN], "a": {"é\n": null}});
        let value = Value {
            amount: 9_007_199_254_740_993,
            share: 1.0,
            none: None,
            some: Some(true),
            absent: None,
            words: vec![Word::Unit],
            any,
        };
        let text = serde_json::to_vec(&value).expect("it serializes");
        let made = value.serialize(ToJson).expect("no text is needed");
        assert_eq!(made.compact(), Json::parse(&text).expect("JSON").compact());
        assert!(value.absent.is_none());
    }

    #[test]
    fn only_the_text_knows_the_rest() {
        let raw = RawValue::from_string(r#"{"a":1.50}"#.to_owned()).expect("JSON");
        let free = FreeObject::from_stored(r#"{"z":1, "a":1e2}"#.to_owned()).expect("an object");
        assert!(raw.serialize(ToJson).is_err());
        assert!(free.serialize(ToJson).is_err());
        assert!(Word::Of(1).serialize(ToJson).is_err());
        assert_eq!(
            Json::of(&raw).map(|it| it.compact()).as_deref(),
            Some(r#"{"a":1.50}"#)
        );
        assert_eq!(
            Json::of(&free).map(|it| it.compact()).as_deref(),
            Some(r#"{"z":1,"a":1e2}"#)
        );
        assert_eq!(
            Json::of(&Word::Of(1)).map(|it| it.compact()).as_deref(),
            Some(r#"{"Of":1}"#)
        );
    }
}
