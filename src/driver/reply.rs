//! Reads the reply of a script: an array whose first element is a status word.

use redis::Value;

use super::error::StoreError;
use super::script::Script;
use crate::domain::words::Word;

/// A reply that is read from front to back.
#[derive(Debug)]
pub struct Reply {
    script: &'static str,
    position: usize,
    values: std::vec::IntoIter<Value>,
}

impl Reply {
    /// Takes the reply of `script`.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is not an array.
    pub fn new(script: &Script, value: Value) -> Result<Self, StoreError> {
        Self::of(script.name(), 0, value)
    }

    fn of(script: &'static str, position: usize, value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(values) => Ok(Self {
                script,
                position,
                values: values.into_iter(),
            }),
            other => Err(unexpected(script, position, "an array", &other)),
        }
    }

    /// The next value.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is missing or of another kind.
    pub fn read<T: FromReply>(&mut self) -> Result<T, StoreError> {
        T::from_reply(self)
    }

    /// The next element as a reply of its own, for nested arrays.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is missing or not an array.
    pub fn next_array(&mut self) -> Result<Self, StoreError> {
        let value = self.take("an array")?;
        Self::of(self.script, self.position - 1, value).map(|nested| Self {
            position: 0,
            ..nested
        })
    }

    /// How many elements are left.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The error for a text that the caller cannot read.
    pub fn unknown(&self, text: &str) -> StoreError {
        unknown(self.script, self.position.saturating_sub(1), text)
    }

    fn take(&mut self, expected: &'static str) -> Result<Value, StoreError> {
        self.position += 1;
        self.values.next().ok_or_else(|| StoreError::Reply {
            script: self.script,
            position: self.position - 1,
            expected,
            found: "the end".to_owned(),
        })
    }

    fn not(&self, value: &Value, expected: &'static str) -> StoreError {
        unexpected(self.script, self.position - 1, expected, value)
    }
}

/// The error for a text in a reply of `script` that the caller cannot read.
pub fn unknown(script: &'static str, position: usize, text: &str) -> StoreError {
    StoreError::Reply {
        script,
        position,
        expected: "a known word",
        found: format!("`{}`", text.chars().take(64).collect::<String>()),
    }
}

fn unexpected(
    script: &'static str,
    position: usize,
    expected: &'static str,
    value: &Value,
) -> StoreError {
    let found: String = format!("{value:?}").chars().take(80).collect();
    StoreError::Reply {
        script,
        position,
        expected,
        found,
    }
}

/// A value in the reply of a script.
pub trait FromReply: Sized {
    /// Reads it from the next element, or from as many as it takes.
    ///
    /// # Errors
    /// [`StoreError::Reply`] names the position.
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError>;
}

impl FromReply for String {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        match reply.take("a text")? {
            Value::BulkString(bytes) => Self::from_utf8(bytes)
                .map_err(|error| reply.not(&Value::BulkString(error.into_bytes()), "UTF-8")),
            Value::SimpleString(text) => Ok(text),
            Value::Okay => Ok("OK".to_owned()),
            Value::Int(integer) => Ok(integer.to_string()),
            other => Err(reply.not(&other, "a text")),
        }
    }
}

/// An integer, or its decimal text.
impl FromReply for i64 {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let value = reply.take("an integer")?;
        let parsed = match &value {
            Value::Int(integer) => Some(*integer),
            Value::BulkString(bytes) => str::from_utf8(bytes)
                .ok()
                .and_then(|text| text.parse().ok()),
            _ => None,
        };
        parsed.ok_or_else(|| reply.not(&value, "an integer"))
    }
}

impl<W: Word> FromReply for W {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let word = reply.read::<String>()?;
        Self::parse(&word).ok_or_else(|| reply.unknown(&word))
    }
}

/// A negative number is none.
impl FromReply for u64 {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let number = reply.read::<i64>()?;
        Self::try_from(number).map_err(|_| reply.unknown(&number.to_string()))
    }
}

/// `1` or `0`.
impl FromReply for bool {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        Ok(reply.read::<i64>()? == 1)
    }
}

/// `None` for `false`, and where the reply ends.
impl FromReply for Option<String> {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        match reply.values.as_slice().first() {
            None => Ok(None),
            Some(Value::Nil) => reply.take("a text").map(|_| None),
            Some(_) => reply.read().map(Some),
        }
    }
}

/// Text that may be damaged. `None` for `false`, and where the reply ends.
impl FromReply for Option<Vec<u8>> {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        if let Some(Value::BulkString(_)) = reply.values.as_slice().first()
            && let Value::BulkString(bytes) = reply.take("bytes")?
        {
            return Ok(Some(bytes));
        }
        Ok(reply.read::<Option<String>>()?.map(String::into_bytes))
    }
}

/// `None` for `false` and `''`, and where the reply ends. A score may have a fraction, which is cut off.
impl FromReply for Option<i64> {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let Some(text) = reply
            .read::<Option<String>>()?
            .filter(|text| !text.is_empty())
        else {
            return Ok(None);
        };
        let score = || text.parse::<f64>().ok().map(|score| score as i64);
        let number = text.parse().ok().or_else(score);
        number.map(Some).ok_or_else(|| reply.unknown(&text))
    }
}

/// All that are left.
impl<T: FromReply> FromReply for Vec<T> {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let mut all = Vec::with_capacity(reply.len());
        while !reply.is_empty() {
            all.push(T::from_reply(reply)?);
        }
        Ok(all)
    }
}

impl<A: FromReply, B: FromReply> FromReply for (A, B) {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        Ok((A::from_reply(reply)?, B::from_reply(reply)?))
    }
}

impl<A: FromReply, B: FromReply, C: FromReply> FromReply for (A, B, C) {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let (a, b) = FromReply::from_reply(reply)?;
        Ok((a, b, C::from_reply(reply)?))
    }
}

/// A value in an array of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nested<T>(pub T);

impl<T: FromReply> FromReply for Nested<T> {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        T::from_reply(&mut reply.next_array()?).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static META: Script = Script::new("deployment/meta", "#!lua", &[], false);

    fn reply(values: Vec<Value>) -> Reply {
        Reply::new(&META, Value::Array(values)).expect("an array")
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn elements_are_read_in_order() {
        let nested = Value::Array(vec![bulk("a"), bulk("b")]);
        let mut reply = reply(vec![
            bulk("ok"),
            bulk("9223372036854775807"),
            Value::Int(-5),
            Value::Nil,
            bulk("x"),
            nested,
        ]);
        assert_eq!(reply.read::<String>().ok().as_deref(), Some("ok"));
        assert_eq!(reply.read::<i64>().ok(), Some(i64::MAX));
        assert_eq!(reply.read::<i64>().ok(), Some(-5));
        let missing = Option::<i64>::from_reply(&mut reply);
        assert_eq!(missing.ok(), Some(None));
        assert_eq!(
            reply.read::<Option<String>>().ok(),
            Some(Some("x".to_owned()))
        );
        let nested = Nested::<Vec<String>>::from_reply(&mut reply);
        assert_eq!(nested.ok(), Some(Nested(vec!["a".into(), "b".into()])));
        assert!(reply.is_empty());
        assert_eq!(reply.read::<Option<String>>().ok(), Some(None));
    }

    #[test]
    fn values_are_read_by_their_type() {
        let nested = Value::Array(vec![Value::Nil, bulk("")]);
        let mut reply = reply(vec![
            bulk("1"),
            Value::Nil,
            bulk(""),
            bulk("1700000000000.5"),
            nested,
            bulk("a"),
            Value::Int(1),
            bulk("b"),
            Value::Int(2),
            Value::BulkString(vec![0xff]),
            Value::Nil,
        ]);
        assert_eq!(bool::from_reply(&mut reply).ok(), Some(true));
        let missing = <(Option<i64>, Option<i64>)>::from_reply(&mut reply);
        assert_eq!(missing.ok(), Some((None, None)));
        let score = Option::<i64>::from_reply(&mut reply);
        assert_eq!(score.ok(), Some(Some(1_700_000_000_000)));
        let texts = Nested::<Vec<Option<String>>>::from_reply(&mut reply);
        assert_eq!(texts.ok(), Some(Nested(vec![None, Some(String::new())])));
        for row in [("a", 1), ("b", 2)] {
            let read = <(String, i64)>::from_reply(&mut reply).ok();
            assert_eq!(read, Some((row.0.to_owned(), row.1)));
        }
        let bytes = Vec::<Option<Vec<u8>>>::from_reply(&mut reply);
        assert_eq!(bytes.ok(), Some(vec![Some(vec![0xff]), None]));
    }

    #[test]
    fn a_wrong_element_is_named_with_its_position() {
        let mut wrong = reply(vec![bulk("ok"), bulk("12x")]);
        wrong.read::<String>().expect("a word");
        let error = wrong.read::<i64>().expect_err("no integer").to_string();
        assert!(
            error.contains("script `meta`") && error.contains("position 1"),
            "{error}"
        );
        let error = wrong
            .read::<String>()
            .expect_err("nothing left")
            .to_string();
        assert!(error.contains("the end at position 2"), "{error}");
        assert!(Reply::new(&META, Value::Nil).is_err());
    }
}
