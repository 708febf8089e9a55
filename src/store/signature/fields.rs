//! Values of the domain in replies.

use crate::domain::amount::Unit;
use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::log_entry::EntryId;
use crate::domain::moment::Moment;
use crate::domain::policy::{Overage, OveragePolicy};
use crate::domain::record::Record;
use crate::domain::refusal::{BadKey, CountLimit, Denial};
use crate::domain::reservation::Status;
use crate::domain::scope::{ScopeFilter, ScopePath};
use crate::driver::error::StoreError;
use crate::driver::reply::{FromReply, Nested, Reply};

/// The values of fields in an array, `None` where one is missing.
pub type Fields = Nested<Vec<Option<String>>>;

/// A text that the domain reads.
macro_rules! parsed {
    ($($type:ty),* $(,)?) => {$(
        impl FromReply for $type {
            fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
                let text = reply.next_str()?;
                Self::parse(&text).ok_or_else(|| reply.unknown(&text))
            }
        }
    )*};
}

parsed!(
    ApiKeyStatus,
    BadKey,
    CountLimit,
    Denial,
    EntryId,
    Overage,
    OveragePolicy,
    ScopePath,
    Status,
    Unit
);

/// A time in milliseconds.
impl FromReply for Moment {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let ms = reply.next_i64()?;
        Self::from_ms(ms).ok_or_else(|| reply.unknown(&ms.to_string()))
    }
}

/// As it is stored; empty for no restriction.
impl FromReply for ScopeFilter {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        Ok(Self::from_stored(&reply.next_str()?))
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
