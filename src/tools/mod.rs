//! The tools of the command line: load generator, development stack, operator's commands, verification.

pub mod bench;
pub mod dev;
mod http;
mod json_client;
pub mod locate;
pub mod operator;
mod table;
mod tenant_id;
pub mod verify;
