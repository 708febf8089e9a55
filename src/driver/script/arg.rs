//! Arguments of scripts.

/// One argument of a script: bytes as they are, or an integer that is written in decimal.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    /// Sent as it is.
    Bytes(&'a [u8]),
    /// Sent in decimal, exactly.
    Integer(i64),
}

impl Arg<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len() + 8,
            Self::Integer(_) => 28,
        }
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Arg<'a> {
    fn from(bytes: &'a T) -> Self {
        Self::Bytes(bytes.as_ref())
    }
}

impl<'a> From<Option<&'a str>> for Arg<'a> {
    /// `None` is the empty string.
    fn from(text: Option<&'a str>) -> Self {
        Self::Bytes(text.unwrap_or("").as_bytes())
    }
}

impl From<i64> for Arg<'_> {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<u32> for Arg<'_> {
    fn from(integer: u32) -> Self {
        Self::Integer(integer.into())
    }
}

impl From<bool> for Arg<'_> {
    /// `1` or `0`.
    fn from(flag: bool) -> Self {
        Self::Integer(flag.into())
    }
}

/// The arguments of a script as a slice: texts, bytes, `Option<&str>` (`None` is empty), integers, flags (`1`, `0`).
#[macro_export]
macro_rules! script_args {
    ($($arg:expr),* $(,)?) => { &[$($crate::driver::script::Arg::from($arg)),*][..] };
}
