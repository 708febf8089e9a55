//! The tools of the command line.

pub(crate) mod bench;
pub(crate) mod dev_stack;
mod dev_start;
pub(crate) mod evidence;
mod examples;
mod files;
pub(crate) mod guides;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod operator;
mod operator_call;
pub(crate) mod operator_changes;
pub(crate) mod operator_reads;
pub(crate) mod operator_terminal;
mod operator_usage;
pub(crate) mod profiles;
pub(crate) mod public_protocol;
pub(crate) mod readme;
pub(crate) mod receivers;
pub(crate) mod verify;
pub(crate) mod verify_clock;
pub(crate) mod verify_commands;
pub(crate) mod verify_counts;
pub(crate) mod webhooks;
