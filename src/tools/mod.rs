//! The commands besides `serve`: development stack, operator's commands, load generator, verification, evidence, health, keys.

pub mod bench;
mod call;
pub mod cli;
mod client;
mod client_error;
mod connection;
pub mod dev;
pub mod evidence;
pub mod generate;
pub mod health;
pub mod limits;
pub mod locate;
pub mod login;
pub mod operator;
mod profile;
mod setup;
mod table;
mod tenant_id;
pub mod verify;
