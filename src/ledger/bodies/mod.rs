//! Requests and responses of the operations that evidence attests: their statements are read back into these.

pub mod commit;
pub mod decide;
pub mod release;
pub mod reserve;

use crate::domain::reservation::Status;

/// What is left of a reservation's life; 0 once it has ended.
pub(in crate::ledger) fn remaining_ttl_ms(status: Status, expires_at_ms: i64, now_ms: i64) -> i64 {
    match status {
        Status::Active => (expires_at_ms - now_ms).max(0),
        Status::Committed | Status::Released | Status::Expired => 0,
    }
}
