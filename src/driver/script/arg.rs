//! Arguments of scripts: what Redis gets for a value, and how the declaration of a script names its form.

use std::time::Duration;

use crate::driver::clock::Day;

/// One argument of a script: bytes as they are, or an integer that is written in decimal.
#[derive(Debug, Clone)]
pub enum Arg<'a> {
    /// Sent as it is.
    Bytes(&'a [u8]),
    /// The same, made for this call.
    Text(String),
    /// Sent in decimal, exactly.
    Integer(i64),
}

impl Arg<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len() + 8,
            Self::Text(text) => text.len() + 8,
            Self::Integer(_) => 28,
        }
    }
}

/// How many places of ARGV a value takes, and what stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One place.
    One(&'static str),
    /// One place, or `''` where there is no value.
    Optional(&'static str),
    /// The number of places that follow, then those places.
    Counted,
    /// All places to the end.
    Rest,
}

/// A value that a script can be given.
pub trait Argument {
    /// How it is laid out in ARGV.
    const FORM: Form;

    /// Adds it to the arguments of a call.
    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>);
}

impl Argument for str {
    const FORM: Form = Form::One("text");

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        args.push(Arg::Bytes(self.as_bytes()));
    }
}

impl Argument for String {
    const FORM: Form = str::FORM;

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        self.as_str().push(args);
    }
}

/// Integers; those beyond int64 are sent as its largest value.
macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            const FORM: Form = Form::One("int64");

            fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
                args.push(Arg::Integer(i64::try_from(*self).unwrap_or(i64::MAX)));
            }
        }
    )*};
}

integers!(i64, u32, u64, usize);

impl Argument for bool {
    const FORM: Form = Form::One("1 or 0");

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        args.push(Arg::Integer((*self).into()));
    }
}

/// In milliseconds.
impl Argument for Duration {
    const FORM: Form = i64::FORM;

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        let ms = i64::try_from(self.as_millis());
        args.push(Arg::Integer(ms.unwrap_or(i64::MAX)));
    }
}

impl Argument for Day {
    const FORM: Form = Form::One("yyyymmdd");

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        args.push(Arg::Text(self.to_string()));
    }
}

impl<T: Argument> Argument for Option<T> {
    const FORM: Form = match T::FORM {
        Form::One(what) | Form::Optional(what) => Form::Optional(what),
        Form::Counted | Form::Rest => panic!("only one place can be empty"),
    };

    /// `None` is the empty string.
    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        match self {
            Some(value) => value.push(args),
            None => args.push(Arg::Bytes(b"")),
        }
    }
}

impl<T: Argument + ?Sized> Argument for &T {
    const FORM: Form = T::FORM;

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        (**self).push(args);
    }
}

/// A row of a list: its values one after the other.
impl<A: Argument, B: Argument> Argument for (A, B) {
    const FORM: Form = Form::Rest;

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        self.0.push(args);
        self.1.push(args);
    }
}

impl<A: Argument, B: Argument, C: Argument> Argument for (A, B, C) {
    const FORM: Form = Form::Rest;

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        self.0.push(args);
        self.1.push(args);
        self.2.push(args);
    }
}

/// A list at the end: its rows one after the other.
impl<T: Argument> Argument for [T] {
    const FORM: Form = Form::Rest;

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        self.iter().for_each(|row| row.push(args));
    }
}

impl<T: Argument> Argument for Vec<T> {
    const FORM: Form = Form::Rest;

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        self[..].push(args);
    }
}

/// A list that something follows: the number of places that it takes, then its rows.
#[derive(Debug, Clone)]
pub struct Counted<T>(pub T);

impl<T: Argument> Argument for Counted<T> {
    const FORM: Form = Form::Counted;

    fn push<'a>(&'a self, args: &mut Vec<Arg<'a>>) {
        let place = args.len();
        args.push(Arg::Integer(0));
        self.0.push(args);
        let count = args.len() - place - 1;
        args[place] = Arg::Integer(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
