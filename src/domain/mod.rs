//! Values and rules of the ledger: no I/O, no async, no HTTP; time is an argument.
//!
//! Everything that arrives from outside becomes one of these types at the edge, once, and is not checked again further in.

pub mod ids;

pub mod amount;
pub mod policy;
pub mod scope;
pub mod search;
pub mod subject;

pub mod action;
pub mod moment;

pub mod budget;
pub mod caller;
pub mod cause;
pub mod record;
pub mod refusal;
pub mod reservation;
pub mod tenant;

pub mod api_key;
pub mod audit;
pub mod bulk;
pub mod event;
pub mod evidence;
pub mod log_entry;
pub mod log_fields;
pub mod webhook;

pub mod json;
pub mod payload_hash;

pub mod cidr;
pub mod seal;

pub mod dialect;
pub mod fields;
pub mod printable;
pub mod words;
