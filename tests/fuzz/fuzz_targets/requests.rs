//! Feeds bytes to the readers of request bodies.
#![no_main]

#[path = "../requests.rs"]
mod requests;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| requests::check(bytes));
