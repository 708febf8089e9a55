//! The glossary: the words of the last column of `docs/glossary.md` do not come back.

use std::collections::BTreeSet;

use super::{files, read, root};

/// Where words are counted: a folder or file, and the ending of its files.
const PLACES: [(&str, &[&str], &str); 4] = [
    ("src", &["src"], "rs"),
    ("lua", &["lua"], "lua"),
    ("tests", &["tests"], "rs"),
    ("docs", &["docs", "README.md", "ARCHITECTURE.md"], "md"),
];

/// Words that have no other sense here: they may not occur in names, comments or prose.
const EVERYWHERE: &[&str] = &[
    "booked",
    "courier",
    "desk",
    "estate",
    "furnished",
    "hall",
    "nowhere",
    "patience",
    "scene",
    "settle",
    "short of funds",
    "strained",
    "tell of",
    "untellable",
    "untold",
    "verdict",
    "what became of",
];

/// Words of everyday English: no name in code has them.
const IN_NAMES: &[&str] = &[
    "answer", "asked", "because", "book", "books", "course", "go on", "goes on", "said", "shown",
    "stage", "stall", "sums", "tells", "verb", "world",
];

/// Words that the glossary avoids in one sense only, which no test can distinguish: `members` of a JSON object, `POST`.
const ORDINARY: &[&str] = &["members", "part", "place", "post"];

/// The words of a text in lower case, between blanks. A name counts as its words: `RedisFixture` as `redis fixture`.
fn words(text: &str) -> String {
    let mut words = String::from(" ");
    let mut before = ' ';
    for letter in text.chars() {
        if letter.is_uppercase() && before.is_lowercase() {
            words.push(' ');
        }
        match letter.is_alphanumeric() {
            true => words.extend(letter.to_lowercase()),
            false if !words.ends_with(' ') => words.push(' '),
            false => {}
        }
        before = letter;
    }
    words + " "
}

/// Code without its comments and without the texts in it.
fn names(code: &str, comment: &str) -> String {
    let (mut names, mut rest) = (String::new(), code);
    let quotes: &[char] = if comment == "--" {
        &['"', '\'']
    } else {
        &['"']
    };
    while let Some(letter) = rest.chars().next() {
        let skipped = if rest.starts_with(comment) {
            rest.find('\n').unwrap_or(rest.len())
        } else if quotes.contains(&letter) && !names.ends_with('\'') {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == letter && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 2)
        } else {
            names.push(letter);
            letter.len_utf8()
        };
        rest = &rest[skipped..];
    }
    names
}

/// All texts of a place that hold the glossary.
fn texts(places: &[&str], ending: &str) -> Vec<String> {
    let of = |place: &&str| match place.ends_with(&format!(".{ending}")) {
        true => vec![root().join(place)],
        false => files(place, ending),
    };
    let found = places.iter().flat_map(of);
    let held = found.filter(|path| !path.ends_with("words.rs") && !path.ends_with("glossary.md"));
    held.map(|path| read(&path)).collect()
}

/// Checks that none of the words occurs in the first places.
fn check(replaced: &[&str], places: usize, normal: impl Fn(&str, &str) -> String) {
    let mut wrong = Vec::new();
    for (name, folders, ending) in PLACES.into_iter().take(places) {
        let comment = if ending == "lua" { "--" } else { "//" };
        let texts: String = texts(folders, ending)
            .iter()
            .map(|text| normal(text, comment))
            .collect();
        for word in replaced {
            let count = texts.matches(&format!(" {word} ")).count();
            if count > 0 {
                wrong.push(format!("{name}: {word} stands {count} times"));
            }
        }
    }
    assert!(wrong.is_empty(), "see docs/glossary.md: {wrong:#?}");
}

#[test]
fn texts_use_no_word_that_the_glossary_replaces() {
    check(EVERYWHERE, 4, |text, _| words(text));
}

#[test]
fn names_use_no_word_that_the_glossary_replaces() {
    check(IN_NAMES, 3, |text, comment| words(&names(text, comment)));
}

#[test]
fn every_replaced_word_of_the_glossary_is_tested() {
    let glossary = read(&root().join("docs/glossary.md"));
    let rows = glossary
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Word"));
    let replaced = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let replaced: BTreeSet<_> = replaced
        .flat_map(|words| words.split(','))
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    let held = EVERYWHERE.iter().chain(IN_NAMES).copied();
    let held: BTreeSet<_> = held.chain(ORDINARY.iter().copied()).collect();
    assert_eq!(replaced, held);
}
