//! The documents: what they name exists, and the two that everybody reads stay short.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use budget_authority::api::errors::Code;
use budget_authority::domain::amount::Unit;
use budget_authority::domain::event::types::EventType;
use budget_authority::domain::refusal::Denial;
use serde_json::Value;

use super::{files, read, root};

/// The documents outside of `docs`.
const AT_THE_TOP: [&str; 5] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
];

/// Paths of the documents, from the root of the project.
pub(super) fn documents() -> Vec<PathBuf> {
    let mut found: Vec<_> = AT_THE_TOP.map(PathBuf::from).into();
    for folder in ["docs", "docs/design", "docs/decisions"] {
        let entries = fs::read_dir(root().join(folder)).expect("a folder");
        let names =
            entries.map(|entry| Path::new(folder).join(entry.expect("an entry").file_name()));
        found.extend(names.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    found
}

/// The texts between two marks on one line.
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

/// The anchors of the headings of a document, as its readers on the web get them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        found.insert(kept.collect::<String>().replace(' ', "-"));
    }
    found
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let (mut wrong, mut count, mut anchored) = (Vec::new(), 0, 0);
    for document in documents() {
        let text = read(&document);
        let beside = root().join(&document);
        for link in between(&text, "](", ")") {
            if link.starts_with("http") {
                continue;
            }
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path.is_empty() {
                true => beside.clone(),
                false => beside.with_file_name(path),
            };
            let leads =
                target.exists() && (anchor.is_empty() || anchors(&read(&target)).contains(anchor));
            anchored += usize::from(!anchor.is_empty());
            if !leads {
                wrong.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(
        count >= 150 && anchored >= 30,
        "only {count} links, {anchored} to headings"
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A newcomer finds every guide from one list; each has a line there, in the order of reading.
#[test]
fn the_index_names_every_guide_once() {
    let index = read(Path::new("docs/README.md"));
    let links = between(&index, "](", ")");
    for path in documents() {
        let in_docs = path.parent() == Some(Path::new("docs")) && !path.ends_with("README.md");
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let count = links.iter().filter(|link| **link == name).count();
        assert!(!in_docs || count == 1, "{name}: {count} times");
    }
}

/// The words between backticks in the first column of the rows below a heading.
fn first_column(document: &str, heading: &str) -> BTreeSet<String> {
    let text = read(Path::new(document));
    let (_, section) = text
        .split_once(&format!("\n## {heading}\n"))
        .expect(heading);
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    cells
        .flat_map(|cell| between(cell, "`", "`"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_catalogue_lists_exactly_the_error_codes_and_reasons() {
    let of = |words: &[&str]| {
        words
            .iter()
            .map(|word| word.to_string())
            .collect::<BTreeSet<_>>()
    };
    let codes = first_column("docs/errors.md", "Catalogue");
    assert_eq!(codes, of(Code::WORDS));
    let reasons = first_column("docs/errors.md", "Reasons of a denial");
    assert_eq!(reasons, of(Denial::WORDS));
}

#[test]
fn the_table_lists_exactly_the_units() {
    let units: BTreeSet<_> = Unit::ALL.iter().map(|unit| unit.to_string()).collect();
    assert_eq!(first_column("docs/concepts.md", "Units"), units);
}

#[test]
fn the_table_of_the_runtime_plane_has_the_required_members() {
    let description = read(Path::new("tests/snapshots/openapi.json"));
    let description: Value = serde_json::from_str(&description).expect("JSON");
    let mut count = 0;
    for row in read(Path::new("docs/api.md")).lines() {
        let Some((_, rest)) = row.split_once(" | `POST ") else {
            continue;
        };
        let (path, members) = rest.split_once("` | ").expect("two cells");
        let members: BTreeSet<_> = between(members, "`", "`").into_iter().collect();
        let body = &description["paths"][path]["post"]["requestBody"]["content"];
        let schema = body["application/json"]["schema"]["$ref"].as_str();
        let schema = schema.and_then(|name| name.rsplit('/').next());
        let schema = &description["components"]["schemas"][schema.expect(path)];
        let required = schema["required"].as_array().into_iter().flatten();
        let required: BTreeSet<_> = required.filter_map(Value::as_str).collect();
        assert_eq!(members, required, "{path}");
        count += 1;
    }
    assert_eq!(count, 8);
}

#[test]
fn the_members_of_every_event_are_documented() {
    let text = read(Path::new("docs/events.md"));
    let mut documented = BTreeMap::new();
    for row in text.lines().filter_map(|line| line.strip_prefix("| ")) {
        let (types, members) = row.split_once(" | ").expect("two cells");
        let members: BTreeSet<_> = between(members, "`", "`").into_iter().collect();
        for name in between(types, "`", "`") {
            let other = documented.insert(name, members.clone());
            assert_eq!(other, None, "{name}");
        }
    }
    // Each line has every member that its type can have.
    for line in read(Path::new("tests/snapshots/events.jsonl")).lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let name = event["event_type"].as_str().expect("a type");
        let members = event["data"].as_object().expect("a payload");
        let members: BTreeSet<_> = members.keys().map(String::as_str).collect();
        assert_eq!(documented.get(name), Some(&members), "{name}");
    }
    let is_missing = |known: &&EventType| !text.contains(&format!("`{known}`"));
    let missing: Vec<_> = EventType::ALL.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Guides of one subject each; a longer one has two. Those that are lists, or that were long before, are not counted.
#[test]
fn the_guides_stay_short() {
    for name in [
        "README",
        "api",
        "backup-and-restore",
        "capacity",
        "errors",
        "evidence",
        "evidence-format",
        "evidence-keys",
        "kubernetes",
        "policies",
        "security",
        "tls",
    ] {
        let path = format!("docs/{name}.md");
        let lines = read(Path::new(&path)).lines().count();
        assert!(lines <= 150, "{path} has {lines} lines");
    }
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
fn every_path_in_a_document_or_comment_exists() {
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
fn every_row_of_durability_names_tests_that_exist() {
    let tests: String = files("tests/it", "rs")
        .iter()
        .map(|path| read(path))
        .collect();
    let text = read(Path::new("docs/durability.md"));
    let (_, rows) = text.split_once("| Test |").expect("the table");
    let rows = rows
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').collect();
        let named = between(cells.last().expect("a cell"), "`", "`");
        assert!(!named.is_empty(), "no test: {row}");
        for name in named {
            count += 1;
            assert!(
                tests.contains(&format!("async fn {name}(")),
                "no test `{name}`"
            );
        }
    }
    assert!(count >= 12, "{count} tests");
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
fn exactly_the_existing_metrics_are_documented() {
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
