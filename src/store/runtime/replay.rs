//! `replay.lua`: the outcome of a request that was made before, while there is no memory for a new one.

use super::decide::DecideReply;
use super::reserve::ReserveReply;
use super::usage_event::UsageEventReply;
use crate::domain::caller::RuntimeCaller;
use crate::domain::record::Record;
use crate::store::signature::signature;

signature! {
    /// Replays a create, a usage event, a decision or a dry run while there is no memory for new ones.
    REPLAY: Replay -> ReplayReply = "runtime/replay", flags "no-writes,allow-oom";
    names {
        caller: &'a RuntimeCaller, key_id of caller, reservation_id: Option<&'a str>, event_id: Option<&'a str>,
        decision_id: Option<&'a str>,
    }
    keys of partition of caller {
        read api_key(key_id), record: reservation(reservation_id) when reservation_id,
            record: usage_event(event_id) when event_id, record: decision(decision_id) when decision_id;
    }
    args {
        key_hash of caller,
        tenant of caller,
        payload_hash: &'a str,
        scope_path: &'a str,
        permission: &'a str,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        memory_full,
    }
    writes "Nothing."
}

/// The replies of the scripts in whose place it is called.
macro_rules! replays {
    ($($reply:ident),*) => {$(
        impl From<ReplayReply> for $reply {
            fn from(ReplayReply::Replayed { now_ms, record }: ReplayReply) -> Self {
                Self::Replayed { now_ms, record }
            }
        }
    )*};
}
replays!(ReserveReply, UsageEventReply, DecideReply);
