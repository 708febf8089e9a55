//! The scripts that run calls of other scripts together: one for those that must also run when Redis is at `maxmemory`, since the
//! flags of a script hold for all that it runs, and one for the others.

use super::{commit, decide, extend, release, reserve, usage_event};
use crate::driver::script::Script;
use crate::store::fragments::FRAGMENTS;

/// Runs requests that create something.
pub static CREATE: Script = Script::new(
    "batch/create",
    include_str!("../../../lua/batch/create.lua"),
    FRAGMENTS,
    true,
)
.running(&CREATING);

static CREATING: [&Script; 3] = [
    &reserve::RESERVE.script,
    &usage_event::USAGE_EVENT.script,
    &decide::DECIDE.script,
];

/// Runs requests about a reservation.
pub static CHANGE: Script = Script::new(
    "batch/change",
    include_str!("../../../lua/batch/change.lua"),
    FRAGMENTS,
    true,
)
.running(&CHANGING);

static CHANGING: [&Script; 3] = [
    &commit::COMMIT.script,
    &release::RELEASE.script,
    &extend::EXTEND.script,
];

/// The script that runs calls of this one together; none if each goes alone.
pub(crate) fn of(script: &'static Script) -> Option<&'static Script> {
    [&CREATE, &CHANGE]
        .into_iter()
        .find(|batch| batch.runs(script))
}
