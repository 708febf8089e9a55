//! Arguments of scripts: what Redis gets for a value, and how the declaration of a script names its form.

use std::borrow::Cow;
use std::time::Duration;

use redis::Cmd;
use smol_str::ToSmolStr as _;

use crate::driver::clock::Day;

/// The number of ARGV entries of a value, and their texts.
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

    /// How many places of ARGV it takes.
    fn places(&self) -> usize {
        1
    }

    /// Adds it to the arguments of a call.
    fn push(&self, command: &mut Cmd);
}

impl Argument for str {
    const FORM: Form = Form::One("text");

    fn push(&self, command: &mut Cmd) {
        command.arg(self);
    }
}

impl Argument for String {
    const FORM: Form = str::FORM;

    fn push(&self, command: &mut Cmd) {
        self.as_str().push(command);
    }
}

impl Argument for Cow<'_, str> {
    const FORM: Form = str::FORM;

    fn push(&self, command: &mut Cmd) {
        (**self).push(command);
    }
}

/// Integers; those beyond int64 are sent as its largest value.
macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            const FORM: Form = Form::One("int64");

            fn push(&self, command: &mut Cmd) {
                command.arg(i64::try_from(*self).unwrap_or(i64::MAX));
            }
        }
    )*};
}

integers!(i64, u32, u64, usize);

impl Argument for bool {
    const FORM: Form = Form::One("1 or 0");

    fn push(&self, command: &mut Cmd) {
        command.arg(i64::from(*self));
    }
}

/// In milliseconds.
impl Argument for Duration {
    const FORM: Form = i64::FORM;

    fn push(&self, command: &mut Cmd) {
        let ms = i64::try_from(self.as_millis());
        command.arg(ms.unwrap_or(i64::MAX));
    }
}

impl Argument for Day {
    const FORM: Form = Form::One("yyyymmdd");

    fn push(&self, command: &mut Cmd) {
        command.arg(self.to_smolstr().as_str());
    }
}

impl<T: Argument> Argument for Option<T> {
    const FORM: Form = match T::FORM {
        Form::One(what) | Form::Optional(what) => Form::Optional(what),
        Form::Counted | Form::Rest => panic!("only one place can be empty"),
    };

    /// `None` is the empty string.
    fn push(&self, command: &mut Cmd) {
        match self {
            Some(value) => value.push(command),
            None => "".push(command),
        }
    }
}

impl<T: Argument + ?Sized> Argument for &T {
    const FORM: Form = T::FORM;

    fn places(&self) -> usize {
        (**self).places()
    }

    fn push(&self, command: &mut Cmd) {
        (**self).push(command);
    }
}

/// Rows of a list: their values one after the other.
macro_rules! rows {
    ($(($($part:ident $place:tt),*)),*) => {$(
        impl<$($part: Argument),*> Argument for ($($part,)*) {
            const FORM: Form = Form::Rest;

            fn places(&self) -> usize {
                0 $(+ self.$place.places())*
            }

            fn push(&self, command: &mut Cmd) {
                $(self.$place.push(command);)*
            }
        }
    )*};
}

rows!((A 0, B 1), (A 0, B 1, C 2));

/// A list at the end: its rows one after the other.
impl<T: Argument> Argument for [T] {
    const FORM: Form = Form::Rest;

    fn places(&self) -> usize {
        self.iter().map(Argument::places).sum()
    }

    fn push(&self, command: &mut Cmd) {
        self.iter().for_each(|row| row.push(command));
    }
}

impl<T: Argument> Argument for Vec<T> {
    const FORM: Form = Form::Rest;

    fn places(&self) -> usize {
        self[..].places()
    }

    fn push(&self, command: &mut Cmd) {
        self[..].push(command);
    }
}

/// A list that something follows: the number of places that it takes, then its rows.
#[derive(Debug, Clone)]
pub struct Counted<T>(pub T);

impl<T: Argument> Argument for Counted<T> {
    const FORM: Form = Form::Counted;

    fn places(&self) -> usize {
        1 + self.0.places()
    }

    fn push(&self, command: &mut Cmd) {
        self.0.places().push(command);
        self.0.push(command);
    }
}
