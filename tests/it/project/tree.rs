//! The top folder, and the workflow that checks a change on a build server.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{read, root};

/// Everything that belongs at the top of the tree.
const TOP: [&str; 26] = [
    ".ci",
    ".dockerignore",
    ".env.example",
    ".github",
    ".gitignore",
    ".luacheckrc",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "clippy.toml",
    "compose",
    "deny.toml",
    "docker-compose.yml",
    "docs",
    "examples",
    "helm",
    "lua",
    "src",
    "tests",
];

#[test]
fn the_top_folder_holds_exactly_the_listed_entries() {
    let ignored = read(Path::new(".gitignore"));
    let is_ignored = |name: &str| {
        let patterns = ignored.lines().map(|line| line.trim_start_matches('/'));
        let matches = |pattern: &str| match pattern.split_once('*') {
            Some((start, end)) => name.starts_with(start) && name.ends_with(end),
            None => name == pattern,
        };
        name == ".git" || patterns.into_iter().any(matches)
    };
    let entries = fs::read_dir(root()).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let found: BTreeSet<_> = names.filter(|name| !is_ignored(name)).collect();
    assert_eq!(found, TOP.map(str::to_owned).into());
}

#[test]
fn the_licence_file_matches_the_package() {
    assert_eq!(env!("CARGO_PKG_LICENSE"), "Apache-2.0");
    let text = read(Path::new("LICENSE"));
    assert!(text.contains("Apache License") && text.contains("Version 2.0, January 2004"));
    assert!(text.contains("END OF TERMS AND CONDITIONS"));
}

#[test]
fn the_changes_of_this_version_are_listed() {
    let heading = format!("\n## {}", env!("CARGO_PKG_VERSION"));
    assert!(
        read(Path::new("CHANGELOG.md")).contains(&heading),
        "{heading}"
    );
}

#[test]
fn a_build_server_runs_the_checks_and_builds_the_image() {
    let workflow = read(Path::new(".github/workflows/ci.yml"));
    let workflow: Value = serde_saphyr::from_str(&workflow).expect("YAML");
    let job = &workflow["jobs"]["run"];
    let steps = job["steps"].as_array().expect("steps");
    let runs: Vec<_> = steps
        .iter()
        .filter_map(|step| step["run"].as_str())
        .collect();
    assert_eq!(runs, [".ci/run ${{ matrix.part }}"]);
    let parts = &job["strategy"]["matrix"]["part"];
    assert_eq!(*parts, serde_json::json!(["lint", "test"]));
    let container = job["container"].as_str().expect("an image");
    let dockerfile = read(Path::new("Dockerfile"));
    assert!(
        dockerfile.contains(&format!("FROM {container} AS build")),
        "{container}"
    );
    assert_eq!(
        workflow["permissions"],
        serde_json::json!({"contents": "read"})
    );
}
