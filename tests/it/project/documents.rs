//! The documents: what they name exists, and the two that everybody reads stay short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{read, root};

/// Paths of the documents, from the root of the project.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<_> = ["README.md", "ARCHITECTURE.md"].map(PathBuf::from).into();
    for folder in ["docs", "docs/design", "docs/decisions"] {
        let entries = fs::read_dir(root().join(folder)).expect("a folder");
        let names =
            entries.map(|entry| Path::new(folder).join(entry.expect("an entry").file_name()));
        found.extend(names.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    found
}

/// The texts between two marks on one line, which may be the same mark.
fn between<'t>(text: &'t str, open: &'static str, close: char) -> impl Iterator<Item = &'t str> {
    text.match_indices(open).filter_map(move |(at, _)| {
        let (found, _) = text[at + open.len()..].split_once(close)?;
        (!found.contains('\n')).then_some(found)
    })
}

#[test]
fn every_link_leads_to_a_file_and_every_named_source_exists() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for document in documents() {
        let text = read(&document);
        let beside = root().join(&document);
        let links = between(&text, "](", ')')
            .filter(|link| !link.starts_with("http") && !link.starts_with('#'));
        let links = links.map(|link| beside.with_file_name(link.split('#').next().unwrap_or(link)));
        let sources = between(&text, "`", '`').filter(|name| {
            let folder = ["src/", "lua/", "tests/", "docs/"]
                .iter()
                .any(|folder| name.starts_with(folder));
            folder && !name.contains(['<', '*', ' ', '{'])
        });
        let sources: Vec<_> = sources.map(|name| root().join(name)).collect();
        checked += sources.len();
        wrong.extend(
            links
                .chain(sources)
                .filter(|path| !path.exists())
                .map(|path| format!("{}: {}", document.display(), path.display())),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 50, "{checked} sources are named");
}

#[test]
fn the_readme_and_the_map_stay_short() {
    for (document, bytes) in [("README.md", 8 << 10), ("ARCHITECTURE.md", 12 << 10)] {
        let length = read(Path::new(document)).len();
        assert!(
            length <= bytes,
            "{document} has {length} bytes, {bytes} are allowed"
        );
    }
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let document = read(Path::new("docs/monitoring.md"));
    let name = |text: &str| text.split('{').next().unwrap_or(text).to_owned();
    let is_metric = |text: &String| {
        text.starts_with("budget_") && !text.contains(|c: char| !c.is_ascii_lowercase() && c != '_')
    };
    let documented: BTreeSet<_> = between(&document, "`", '`')
        .map(name)
        .filter(is_metric)
        .collect();
    let mut code = String::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false => code += &read(&path),
            }
        }
    }
    let literals: BTreeSet<_> = between(&code, "\"", '"')
        .map(str::to_owned)
        .filter(is_metric)
        .collect();
    assert!(documented.len() > 20, "{documented:?}");
    let unknown: Vec<_> = documented.difference(&literals).collect();
    assert!(unknown.is_empty(), "no such metric: {unknown:?}");
    let counts = |name: &&String| name.ends_with("_total") || name.ends_with("_seconds");
    let missing: Vec<_> = literals.difference(&documented).filter(counts).collect();
    assert!(missing.is_empty(), "not documented: {missing:?}");
}
