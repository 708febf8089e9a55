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

/// How often a word may still stand in `src`, `lua`, `tests` and the documents. These figures only shrink.
type Pending = (&'static str, [usize; 4]);

/// Words that have no other sense here: they stand nowhere, in names, comments and prose.
const EVERYWHERE: &[Pending] = &[
    ("desk", [0, 0, 0, 0]),
    ("estate", [0, 0, 0, 0]),
    ("hall", [0, 0, 0, 0]),
    ("nowhere", [0, 0, 0, 0]),
    ("patience", [0, 0, 0, 0]),
    ("scene", [0, 0, 0, 0]),
    ("settle", [0, 0, 0, 0]),
    ("short of funds", [0, 0, 0, 0]),
    ("strained", [0, 0, 4, 0]),
    ("tell of", [0, 0, 0, 0]),
    ("untellable", [0, 0, 0, 0]),
    ("untold", [0, 0, 0, 0]),
    ("verdict", [0, 0, 0, 0]),
    ("what became of", [0, 0, 0, 0]),
];

/// Words of everyday English: no name in code has them.
const IN_NAMES: &[Pending] = &[
    ("answer", [22, 1, 4, 0]),
    ("asked", [0, 2, 0, 0]),
    ("because", [0, 0, 0, 0]),
    ("course", [0, 0, 0, 0]),
    ("go on", [0, 0, 0, 0]),
    ("said", [0, 0, 28, 0]),
    ("shown", [50, 7, 2, 0]),
    ("stage", [0, 0, 1, 0]),
    ("stall", [0, 0, 0, 0]),
    ("sums", [0, 1, 0, 0]),
    ("turn", [0, 2, 9, 0]),
    ("verb", [0, 4, 0, 0]),
    ("world", [0, 0, 0, 0]),
];

/// Words that the glossary avoids in one sense only, which no test can tell apart: `members` of a JSON object, `POST`.
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

/// Counts the words in the first places.
fn check(pending: &[Pending], places: usize, normal: impl Fn(&str, &str) -> String) {
    let mut wrong = Vec::new();
    for (place, (name, folders, ending)) in PLACES.into_iter().enumerate().take(places) {
        let comment = if ending == "lua" { "--" } else { "//" };
        let texts: Vec<_> = texts(folders, ending)
            .iter()
            .map(|text| normal(text, comment))
            .collect();
        for (word, allowed) in pending {
            let word = format!(" {word} ");
            let count: usize = texts.iter().map(|text| text.matches(&word).count()).sum();
            if count > allowed[place] {
                wrong.push(format!(
                    "{name}:{word}stands {count} times, {} allowed",
                    allowed[place]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "see docs/glossary.md: {wrong:#?}");
}

#[test]
fn no_text_has_a_word_that_the_glossary_replaces() {
    check(EVERYWHERE, 4, |text, _| words(text));
}

#[test]
fn no_name_has_a_word_that_the_glossary_replaces() {
    check(IN_NAMES, 3, |text, comment| words(&names(text, comment)));
}

#[test]
fn every_word_that_the_glossary_replaces_is_held() {
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
    let held = EVERYWHERE.iter().chain(IN_NAMES).map(|(word, _)| *word);
    let held: BTreeSet<_> = held.chain(ORDINARY.iter().copied()).collect();
    assert_eq!(replaced, held);
}
