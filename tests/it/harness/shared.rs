//! Redis servers that tests share.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::redis::RedisServer;

/// Tests per server: a search for keys by a pattern scans the keys of all of them.
const TESTS_PER_SERVER: usize = 50;

struct Servers {
    newest: Option<&'static RedisServer>,
    of_tests: BTreeMap<String, &'static RedisServer>,
}

static SERVERS: Mutex<Servers> = Mutex::new(Servers {
    newest: None,
    of_tests: BTreeMap::new(),
});

/// A server that tests may share; each takes a key prefix of its own. A test gets the same one at each call.
///
/// # Panics
/// Outside the thread of a test, which has its name.
pub fn shared() -> &'static RedisServer {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    // With `--test-threads 1` all tests run in the main thread.
    assert!(
        test == "main" || test.contains("::"),
        "the thread {test:?} is of no test: ask before it begins"
    );
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = servers.of_tests.get(test) {
        return server;
    }
    let newest = match servers.newest {
        Some(newest) if !servers.of_tests.len().is_multiple_of(TESTS_PER_SERVER) => newest,
        // Records stay lists, as the service advises: the `DUMP` of a hash table depends on its history.
        _ => Box::leak(Box::new(RedisServer::start_in_memory(&[
            "--hash-max-listpack-value",
            "1024",
        ]))),
    };
    servers.newest = Some(newest);
    servers.of_tests.insert(test.to_owned(), newest);
    newest
}

/// Whether this is the URL of a server that tests share.
pub fn is_shared(url: &str) -> bool {
    let servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    servers.of_tests.values().any(|server| server.url() == url)
}
