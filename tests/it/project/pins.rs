//! What others publish under a name that they may move is named by version or digest: base images, actions, advisories.

use std::collections::BTreeSet;
use std::path::Path;

use super::read;

/// What follows these words at the start of a line, up to a blank.
fn named(path: &str, words: &str) -> Vec<String> {
    let text = read(Path::new(path));
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches("- "));
    let rest = lines.filter_map(|line| line.strip_prefix(words));
    let names = rest.filter_map(|rest| rest.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// A tag with a whole version or a date, such as `3.0.21-alpine`, or a digest.
fn is_pinned(image: &str) -> bool {
    if image.contains("@sha256:") {
        return true;
    }
    let tag = image.rsplit_once(':').map_or("", |(_, tag)| tag);
    let is_date = |part: &str| part.len() == 8 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = |part: &str| {
        let numbers: Vec<_> = part.split('.').collect();
        numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u32>().is_ok())
    };
    tag.split('-').any(|part| is_version(part) || is_date(part))
}

#[test]
fn base_images_have_a_whole_version_or_a_date() {
    let mut found = BTreeSet::new();
    for (path, words) in [
        ("Dockerfile", "FROM "),
        ("docker-compose.yml", "image: "),
        (".github/workflows/ci.yml", "container: "),
        ("helm/budget-authority/values.yaml", "image: "),
    ] {
        let foreign = |image: &String| !["scratch", "budget-authority"].contains(&image.as_str());
        found.extend(named(path, words).into_iter().filter(foreign));
    }
    assert!(found.len() >= 4, "{found:?}");
    for image in &found {
        assert!(is_pinned(image), "{image}");
    }
    for moving in [
        "redis",
        "redis:7-alpine",
        "rust:1.95-slim",
        "debian:trixie-slim",
    ] {
        assert!(!is_pinned(moving), "{moving}");
    }
}

#[test]
fn actions_are_named_by_their_commit() {
    let actions = named(".github/workflows/ci.yml", "uses: ");
    assert!(!actions.is_empty());
    for action in actions {
        let commit = action.split_once('@').map_or("", |(_, commit)| commit);
        let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_commit, "{action}");
    }
}

/// `.ci/deny` refuses a copy that is too old, or lacks a crate.
#[test]
fn the_copy_of_the_advisories_says_its_date_and_covers_every_crate() {
    let date = read(Path::new(".ci/advisories/date.txt"));
    let parts: Vec<_> = date.trim().split('-').map(str::len).collect();
    assert_eq!(parts, [4, 2, 2], "{date}");
    let settings = read(Path::new("deny.toml"));
    for setting in ["maximum-db-staleness = \"P180D\"", "yanked = \"deny\""] {
        assert!(settings.contains(setting), "{setting}");
    }
    let covered = read(Path::new(".ci/advisories/covered.txt"));
    let covered: BTreeSet<_> = covered.lines().collect();
    let locked = read(Path::new("Cargo.lock"));
    let locked = locked
        .lines()
        .filter_map(|line| line.strip_prefix("name = \""));
    let locked: BTreeSet<_> = locked.map(|name| name.trim_end_matches('"')).collect();
    let missing: Vec<_> = locked.difference(&covered).collect();
    assert!(missing.is_empty(), "run make advisories: {missing:?}");
}
