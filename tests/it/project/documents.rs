//! The documents: what they name exists, and the two that everybody reads stay short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{files, read, root};

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

/// What stands between two marks on one line of a text.
fn between<'t>(text: &'t str, open: &'static str, close: &'static str) -> Vec<&'t str> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut rest = line;
        while let Some((inside, after)) = rest
            .split_once(open)
            .and_then(|(_, after)| after.split_once(close))
        {
            found.push(inside);
            rest = after;
        }
    }
    found
}

#[test]
fn every_link_leads_to_a_file() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for document in documents() {
        let text = read(&document);
        let beside = root().join(&document);
        for link in between(&text, "](", ")") {
            let path = link.split('#').next().unwrap_or(link);
            if link.starts_with("http") || path.is_empty() {
                continue;
            }
            count += 1;
            if !beside.with_file_name(path).exists() {
                wrong.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(count >= 60, "only {count} links");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The comments of code.
fn comments(code: &str, mark: &str) -> String {
    let of = |line: &str| line.find(mark).map(|at| line[at..].to_owned());
    code.lines().filter_map(of).collect::<Vec<_>>().join("\n")
}

/// The paths of our files that a text names. Names with a placeholder, as in `src/api/<resource>.rs`, are none.
fn named_paths(text: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let name = &rest[start..];
        let end = name.find(|letter| !is_part(letter)).unwrap_or(name.len());
        rest = &name[end..];
        let is_ours = ["src/", "lua/", "tests/", "docs/"]
            .iter()
            .any(|folder| name[..end].starts_with(folder));
        if is_ours && !rest.starts_with(['<', '*', '{', '…']) {
            found.push(name[..end].trim_end_matches('.'));
        }
    }
    found
}

#[test]
fn every_path_that_a_document_or_comment_names_exists() {
    let mut texts: Vec<_> = documents()
        .into_iter()
        .map(|document| (read(&document), document))
        .collect();
    for (folder, ending, mark) in [
        ("src", "rs", "//"),
        ("tests", "rs", "//"),
        ("lua", "lua", "--"),
    ] {
        texts.extend(
            files(folder, ending)
                .into_iter()
                .map(|path| (comments(&read(&path), mark), path)),
        );
    }
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (text, path) in &texts {
        for named in named_paths(text) {
            count += 1;
            if !root().join(named).exists() {
                wrong.push(format!("{}: {named}", path.display()));
            }
        }
    }
    assert!(count >= 100, "only {count} paths");
    assert!(wrong.is_empty(), "{wrong:#?}");
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
    let documented: BTreeSet<_> = between(&document, "`", "`")
        .into_iter()
        .map(name)
        .filter(is_metric)
        .collect();
    let code: String = files("src", "rs").iter().map(|path| read(path)).collect();
    let literals: BTreeSet<_> = between(&code, "\"", "\"")
        .into_iter()
        .map(str::to_owned)
        .filter(is_metric)
        .collect();
    assert!(documented.len() >= 30, "only {documented:?}");
    let unknown: Vec<_> = documented.difference(&literals).collect();
    assert!(unknown.is_empty(), "no such metric: {unknown:?}");
    let counts = |name: &&String| name.ends_with("_total") || name.ends_with("_seconds");
    let missing: Vec<_> = literals.difference(&documented).filter(counts).collect();
    assert!(missing.is_empty(), "not documented: {missing:?}");
}
