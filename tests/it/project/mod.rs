//! The project itself: its rules, documents and scripts.

mod chart;
mod circles;
mod commands;
mod compose;
mod dashboards;
mod documents;
mod image;
mod need;
mod pins;
mod redis_calls;
mod signatures;
mod tidy;
mod tree;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the project.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder whose names end so, sorted.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|found| found == ending) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// A file, by its path from the root of the project or a whole one.
fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
