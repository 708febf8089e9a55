//! The commands besides `serve`: development stack, operator's commands, budgets in files, load generator, verification, evidence, health, keys.

pub mod bench;
pub mod call;
pub mod cli;
mod client;
pub mod connection;
pub mod dev;
pub mod evidence;
pub mod files;
pub mod health;
pub mod keys;
pub mod limits;
pub mod operator;
mod output;
mod pages;
mod profile;
mod setup;
mod table;
pub mod verify;
