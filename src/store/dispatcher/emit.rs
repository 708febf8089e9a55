//! Calls of scripts that emit what is pending, each once and not before its time.

use super::denials::EmittedReply;
use crate::store::signature::{Refused, ScriptCall};
use crate::store::{Lane, Store, StoreError};

impl Store {
    /// Returns how many events and audit entries the script appended: none before their time, or where another call did;
    /// `None` where another dispatcher holds the lease by now.
    pub(super) async fn emit<C>(&self, call: &C) -> Result<Option<i64>, StoreError>
    where
        C: ScriptCall<Outcome = EmittedReply>,
    {
        match self.run_on(Lane::Background, call).await? {
            Ok(EmittedReply::Flushed { count }) => Ok(Some(count)),
            Err(Refused::Early) => Ok(Some(0)),
            Err(Refused::Fenced) => Ok(None),
            Err(refused) => Err(refused.unexpected(C::SIGNATURE)),
        }
    }
}
