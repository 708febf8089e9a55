//! The result of a script that emits a pending rollup or expiry.

use crate::driver::error::StoreError;
use crate::driver::reply::unknown;
use crate::store::signature::Refused;

/// What one call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// It appended so many facts: one, or none where another call had done so already.
    Facts(i64),
    /// It is not time yet.
    Early,
    /// The caller's lease is over.
    Fenced,
}

impl Flushed {
    /// From the facts that a script appended.
    pub(super) fn read(facts: Result<i64, Refused>) -> Result<Self, StoreError> {
        match facts {
            Ok(count) => Ok(Self::Facts(count)),
            Err(Refused::Early) => Ok(Self::Early),
            Err(Refused::Fenced) => Ok(Self::Fenced),
            Err(other) => Err(unknown("flush", 0, other.word())),
        }
    }
}
