//! The audit log.

pub(crate) mod bounds;
pub(crate) mod entries;
pub(crate) mod floods;
pub(crate) mod http;
pub(crate) mod logs;
pub(crate) mod retention;
pub(crate) mod seal_faults;
pub(crate) mod seals;
pub(crate) mod verify;
