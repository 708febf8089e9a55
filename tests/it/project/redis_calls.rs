//! Redis is called in few ways, so that deadlines, retries and the check of the deployment are in one place.

use std::collections::BTreeSet;

use super::{files, read, root};

/// The functions that send arbitrary commands, from any module that may use the store.
const WAYS: [&str; 7] = [
    "run",
    "run_each",
    "run_with_policy",
    "send",
    "send_all",
    "send_each",
    "send_to_nodes",
];

/// Types that are sent: a call of a script, encoded or not, and plain commands. Requests of the admin plane have a `Request` of their own.
const SENT: [&str; 4] = ["Call", "Cmd", "Pipeline", "ScriptCall"];

/// Files that may use the driver's connection: each call, the reading of the deployment before the first call, and the walk
/// over all keys of a node.
const USERS_OF_THE_DRIVER: [&str; 3] = [
    "src/store/calls.rs",
    "src/store/deployment.rs",
    "src/store/tools/scan.rs",
];

/// Name and rest of the signature of each asynchronous function that other modules see.
fn shared_functions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("async fn ").filter_map(|(at, _)| {
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let is_shared = text[line_start..at].trim_start().starts_with("pub");
        let signature = text[at + "async fn ".len()..].split(" {\n").next()?;
        let name_ends = signature.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        is_shared.then(|| signature.split_at(name_ends))
    })
}

#[test]
fn only_these_functions_send_commands_to_redis() {
    let mut found = BTreeSet::new();
    for folder in ["store", "ledger", "listing", "admin", "dispatcher"] {
        for path in files(&format!("src/{folder}"), "rs") {
            let text = read(&path);
            for (name, rest) in shared_functions(&text) {
                let mut words = rest.split(|c: char| !c.is_alphanumeric());
                let takes_any = words.any(|word| SENT.contains(&word));
                if takes_any || rest.contains("Into<Request<") {
                    found.insert(name.to_owned());
                }
            }
        }
    }
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), WAYS);
}

#[test]
fn only_these_files_use_the_connection_of_the_driver() {
    let users = files("src", "rs").into_iter().filter_map(|path| {
        let inside = path.strip_prefix(root()).expect("a file of ours");
        let uses = read(&path).contains("connection.send");
        (uses && !inside.starts_with("src/driver") && !inside.starts_with("src/tools"))
            .then(|| inside.display().to_string())
    });
    let users: Vec<_> = users
        .filter(|user| !user.starts_with("src/egress"))
        .collect();
    assert_eq!(users, USERS_OF_THE_DRIVER);
}
