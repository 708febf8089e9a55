//! Values and rules of the ledger: no I/O, no async, no HTTP; time is an argument.
//!
//! Everything that arrives from outside becomes one of these types at the edge, once, and is not checked again further in.

pub mod ids;

pub mod amount;
pub mod policy;
pub mod scope;
pub mod search;
pub mod subject;
pub mod usage;

pub mod moment;
pub mod money;
pub mod period;

pub mod admin_key;
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

pub mod bounded;
pub mod dialect;
pub mod fields;
pub mod printable;
pub mod words;

/// The rows of a table in a test, one a line: `left => right`.
#[cfg(test)]
pub(crate) fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = table.lines().map(str::trim).filter(|row| !row.is_empty());
    rows.map(|row| row.split_once(" => ").expect("a left and a right side"))
}
