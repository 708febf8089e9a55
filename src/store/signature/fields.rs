//! Values of the domain in replies.

use crate::domain::bulk::Outcome;
use crate::domain::log_entry::EntryId;
use crate::domain::moment::Moment;
use crate::domain::record::Record;
use crate::domain::refusal::BadKey;
use crate::domain::scope::{ScopeFilter, ScopePath};
use crate::domain::webhook::{Owner, SubscriptionId};
use crate::driver::error::StoreError;
use crate::driver::reply::{FromReply, Nested, Reply};

/// The values of fields in an array, `None` where one is missing.
pub type Fields = Nested<Vec<Option<String>>>;

/// Texts that the domain reads, by the name of its function; `None` is the empty text.
macro_rules! parsed {
    ($($parse:ident: $($type:ty),*;)*) => {$($(
        impl FromReply for $type {
            fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
                let text = reply.read::<String>()?;
                Self::$parse(&text).ok_or_else(|| reply.unknown(&text))
            }
        }

        impl FromReply for Option<$type> {
            fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
                let text = reply.read::<String>()?;
                let parsed = || <$type>::$parse(&text).ok_or_else(|| reply.unknown(&text));
                (!text.is_empty()).then(parsed).transpose()
            }
        }
    )*)*};
}

parsed! {
    parse: BadKey, EntryId, Owner, ScopePath, SubscriptionId;
    from_stored: Outcome;
}

/// A time in milliseconds.
impl FromReply for Moment {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let ms = reply.read::<i64>()?;
        Self::from_ms(ms).ok_or_else(|| reply.unknown(&ms.to_string()))
    }
}

/// As it is stored; empty for no restriction.
impl FromReply for ScopeFilter {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        Ok(Self::from_stored(&reply.read::<String>()?))
    }
}

/// Names and values in an array.
impl FromReply for Record {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        Ok(Self::from_pairs(Vec::from_reply(&mut reply.next_array()?)?))
    }
}

/// Names and values to the end of the reply.
#[derive(Debug)]
pub struct FlatRecord(pub Record);

impl FromReply for FlatRecord {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        Ok(Self(Record::from_pairs(Vec::from_reply(reply)?)))
    }
}
