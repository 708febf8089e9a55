//! Reads the reply of a script: an array whose first element is a status word.

use redis::Value;

use super::error::StoreError;
use super::script::Script;
use crate::domain::amount::Unit;
use crate::domain::scope::ScopePath;

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

    /// The next element as text; at the front, the status word.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is missing or no text.
    pub fn next_str(&mut self) -> Result<String, StoreError> {
        match self.next("a text")? {
            Value::BulkString(bytes) => String::from_utf8(bytes)
                .map_err(|error| self.not(&Value::BulkString(error.into_bytes()), "UTF-8")),
            Value::SimpleString(text) => Ok(text),
            Value::Okay => Ok("OK".to_owned()),
            Value::Int(integer) => Ok(integer.to_string()),
            other => Err(self.not(&other, "a text")),
        }
    }

    /// The next element as an integer, be it one or its decimal text.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is missing or no int64.
    pub fn next_i64(&mut self) -> Result<i64, StoreError> {
        let value = self.next("an integer")?;
        let parsed = match &value {
            Value::Int(integer) => Some(*integer),
            Value::BulkString(bytes) => str::from_utf8(bytes)
                .ok()
                .and_then(|text| text.parse().ok()),
            _ => None,
        };
        parsed.ok_or_else(|| self.not(&value, "an integer"))
    }

    /// The next element as the word of a unit.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is missing or no unit.
    pub fn next_unit(&mut self) -> Result<Unit, StoreError> {
        let word = self.next_str()?;
        Unit::parse(&word).ok_or_else(|| self.unknown(&word))
    }

    /// The next element as a scope.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is missing or no scope.
    pub fn next_path(&mut self) -> Result<ScopePath, StoreError> {
        let path = self.next_str()?;
        ScopePath::parse(&path).ok_or_else(|| self.unknown(&path))
    }

    /// The next element as text, `None` where the script answered `false` or the reply ends.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is something else.
    pub fn opt_str(&mut self) -> Result<Option<String>, StoreError> {
        self.opt(Self::next_str)
    }

    /// The next element as an integer, `None` where the script answered `false` or the reply ends.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is something else.
    pub fn opt_i64(&mut self) -> Result<Option<i64>, StoreError> {
        self.opt(Self::next_i64)
    }

    /// The next element as a reply of its own, for nested arrays.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when it is missing or not an array.
    pub fn next_array(&mut self) -> Result<Self, StoreError> {
        let value = self.next("an array")?;
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

    /// All elements that are left, as texts.
    ///
    /// # Errors
    /// [`StoreError::Reply`] when one is no text.
    pub fn rest(mut self) -> Result<Vec<String>, StoreError> {
        let mut rest = Vec::with_capacity(self.len());
        while !self.is_empty() {
            rest.push(self.next_str()?);
        }
        Ok(rest)
    }

    /// The error for a word that the caller does not know.
    pub fn unknown(&self, word: &str) -> StoreError {
        StoreError::Reply {
            script: self.script,
            position: self.position.saturating_sub(1),
            expected: "a known word",
            found: format!("`{}`", word.chars().take(64).collect::<String>()),
        }
    }

    fn opt<T>(
        &mut self,
        read: fn(&mut Self) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self.values.as_slice().first() {
            None => Ok(None),
            Some(Value::Nil) => {
                self.position += 1;
                self.values.next();
                Ok(None)
            }
            Some(_) => read(self).map(Some),
        }
    }

    fn next(&mut self, expected: &'static str) -> Result<Value, StoreError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    static META: Script = Script::new("deployment", "meta", "#!lua", &[]);

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
        assert_eq!(reply.next_str().ok().as_deref(), Some("ok"));
        assert_eq!(reply.next_i64().ok(), Some(i64::MAX));
        assert_eq!(reply.next_i64().ok(), Some(-5));
        assert_eq!(reply.opt_i64().ok(), Some(None));
        assert_eq!(reply.opt_str().ok(), Some(Some("x".to_owned())));
        let nested = reply.next_array().and_then(Reply::rest);
        assert_eq!(nested.ok(), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert!(reply.is_empty());
        assert_eq!(reply.opt_str().ok(), Some(None));
    }

    #[test]
    fn a_wrong_element_is_named_with_its_position() {
        let mut wrong = reply(vec![bulk("ok"), bulk("12x")]);
        wrong.next_str().expect("a word");
        let error = wrong.next_i64().expect_err("no integer").to_string();
        assert!(
            error.contains("script `meta`") && error.contains("position 1"),
            "{error}"
        );
        let error = wrong.next_str().expect_err("nothing left").to_string();
        assert!(error.contains("the end at position 2"), "{error}");
        assert!(Reply::new(&META, Value::Nil).is_err());
    }
}
