//! A call of a script from its declaration, and the reading of its reply.

use redis::{Cmd, Value};

use super::{Refused, Signature};
use crate::domain::api_key::secret::{KeyHash, KeyId};
use crate::domain::ids::{ReservationId, TenantId};
use crate::domain::policy::PolicyId;
use crate::domain::webhook::{DeliveryId, Owner, SubscriptionId};
use crate::driver::call::Call;
use crate::driver::clock::Day;
use crate::driver::error::StoreError;
use crate::driver::reply::Reply;
use crate::driver::script::{Argument, Form};
use crate::store::dispatcher::lease::Lease;
use crate::store::keys::{KeySegment, Keys};

/// The reply of a script besides the words that many share.
pub trait Outcome: Sized {
    /// Reads what follows `word`; `None` for a word that is none of its own.
    ///
    /// # Errors
    /// [`StoreError::Reply`].
    fn read(word: &str, reply: &mut Reply) -> Result<Option<Self>, StoreError>;
}

/// A call of a script, all its names and arguments filled in.
pub(crate) trait ScriptCall: Sync {
    /// The replies that are its own.
    type Outcome: Outcome;
    /// The declaration of the script.
    const SIGNATURE: &'static Signature;

    /// The call, encoded with the keys of a day.
    fn on(&self, keys: &Keys, day: Day) -> Call;

    /// Reads the reply.
    fn read(value: Value) -> Result<Result<Self::Outcome, Refused>, StoreError> {
        let signature = Self::SIGNATURE;
        let mut reply = Reply::new(&signature.script, value)?;
        let mut word: String = reply.read()?;
        let declared = |word: &str| signature.replies.iter().any(|known| known.word == word);
        if word == "replayed" && Refused::replays(signature) {
            word = reply.read()?;
        }
        if let Some(outcome) = Self::Outcome::read(&word, &mut reply)? {
            return Ok(Ok(outcome));
        }
        let refused = match declared(&word) {
            true => Refused::read(&word, &mut reply)?,
            false => None,
        };
        refused.map(Err).ok_or_else(|| reply.unknown(&word))
    }
}

/// Values of the domain that are a text in names of keys and in arguments.
macro_rules! texts {
    ($($type:ty),* $(,)?) => {$(
        impl KeySegment for $type {
            fn push_to(&self, key: &mut String) {
                key.push_str(self.as_str());
            }
        }

        impl Argument for $type {
            const FORM: Form = str::FORM;

            fn push(&self, command: &mut Cmd) {
                self.as_str().push(command);
            }
        }
    )*};
}

texts!(
    KeyHash,
    KeyId,
    Owner,
    PolicyId,
    ReservationId,
    DeliveryId,
    SubscriptionId,
    TenantId
);

/// The fencing token.
impl Argument for Lease {
    const FORM: Form = i64::FORM;

    fn push(&self, command: &mut Cmd) {
        self.token.push(command);
    }
}

/// Whether a key is to be passed.
pub(crate) trait IsGiven {
    fn is_given(&self) -> bool;
}

impl IsGiven for bool {
    fn is_given(&self) -> bool {
        *self
    }
}

impl<T> IsGiven for Option<T> {
    fn is_given(&self) -> bool {
        self.is_some()
    }
}
