//! The header of a script and its named locals.

use std::fmt::Write as _;

use budget_authority::driver::script::Form;
use budget_authority::store::keys::Key;
use budget_authority::store::signature::{Access, ArgUse, KeyUse, Signature, Word};

use super::END_OF_SIGNATURE;
use super::layout::{columns, paragraphs, wrapped};

/// Comments of arguments that many scripts share.
const USUAL_NOTES: &[(&str, &str)] = &[
    ("audit", "Names and values of the audit entry."),
    (
        "changes",
        "A member of the request, the field of the record, then = and the value, or '' to remove the field.",
    ),
    ("context", "The request cause, lines of name and value."),
    ("direction", "asc or desc."),
    ("fields", "Names and values of the record."),
    ("kept", "Names and values that the record keeps."),
    ("key_digest", "Of the idempotency key."),
    ("key_hash", "Of the API key; empty for the admin key."),
    (
        "policies_version",
        "The version of the tenant's policies from which the policy was chosen.",
    ),
    ("policy_from_ms", "From then on the policy applies."),
    ("policy_until_ms", "Until then the policy applies."),
    ("rows", "How many at most."),
    (
        "until_ms",
        "Of a request that is repeated: the clock of its first call, by which holds have expired and ledgers have turned.",
    ),
];

/// The comment of an argument: as declared, else the shared one for its name.
fn note(arg: &ArgUse) -> &'static str {
    let usual = || USUAL_NOTES.iter().find(|(name, _)| *name == arg.local);
    match arg.note.trim() {
        "" => usual().map_or("", |(_, note)| *note),
        own => own,
    }
}

/// Everything up to the end of the signature. `body`: what follows; only names of ranges that it uses are made.
pub(super) fn header(signature: &Signature, body: &str) -> String {
    let flags = match signature.flags {
        "" => String::new(),
        flags => format!(" flags={flags}"),
    };
    let mut text = format!(
        "#!lua{flags}\n--[[ Written by `make signatures`, from the declaration in {}.\n",
        signature.file
    );
    paragraphs(&mut text, signature.summary);
    text.push('\n');
    columns(&mut text, &key_rows(signature));
    if !signature.args.is_empty() {
        text.push('\n');
        columns(&mut text, &arg_rows(signature));
    }
    let word = |word: &Word| {
        let fields = word.fields.iter().map(|field| format!(" {field}"));
        format!("{}{}", word.word, fields.collect::<String>())
    };
    let replies: Vec<_> = signature.replies.iter().map(word).collect();
    let _ = writeln!(text, "\nReplies, the first that applies:");
    wrapped(&mut text, "  ", &replies, " |");
    let _ = writeln!(text, "Writes:");
    let words: Vec<_> = signature.writes.split(' ').map(str::to_owned).collect();
    wrapped(&mut text, "  ", &words, "");
    text.push_str("]]\n");
    locals(&mut text, signature, body);
    text + END_OF_SIGNATURE
}

/// The positions of keys; keys of one name are alternatives.
fn positions(signature: &Signature) -> Vec<(usize, &'static KeyUse)> {
    let mut positions: Vec<(usize, &KeyUse)> = Vec::new();
    for key in signature.keys {
        let position = match positions.last() {
            Some((position, before)) if before.local == key.local => *position,
            Some((position, _)) => position + 1,
            None => 1,
        };
        positions.push((position, key));
    }
    positions
}

/// Where the list of keys begins, and how many optional keys may come before it.
fn list_start(signature: &Signature) -> (usize, usize) {
    let positions = positions(signature);
    let alternatives = |position| {
        positions
            .iter()
            .filter(|(other, _)| *other == position)
            .count()
    };
    let optional =
        |(position, key): &&(usize, &KeyUse)| key.when.is_some() && alternatives(*position) == 1;
    let left_out = positions.iter().filter(optional).count();
    let last = positions.last().map_or(0, |(position, _)| *position);
    (last + 1 - left_out, left_out)
}

fn key_rows(signature: &Signature) -> Vec<[String; 5]> {
    let access = |access: Access| match access {
        Access::Read => "read".to_owned(),
        Access::Write => "write".to_owned(),
    };
    let mut rows = Vec::new();
    for (position, key) in positions(signature) {
        let pattern = pattern_of(key.key, key.parts);
        let pattern = match key.when {
            Some(when) => format!("{pattern}  (if {when})"),
            None => pattern,
        };
        let local = key.local.to_owned();
        rows.push([
            format!("KEYS[{position}]"),
            access(key.access),
            local,
            key.key.kind.to_owned(),
            pattern,
        ]);
    }
    if let Some(list) = &signature.list {
        let (start, optional) = list_start(signature);
        let index = match optional {
            0 => format!("KEYS[{start}..]"),
            1 => format!("KEYS[{start} or {}..]", start + 1),
            _ => format!("KEYS[{start} to {}..]", start + optional),
        };
        let patterns: Vec<_> = list.keys.iter().map(|key| pattern_of(key, &[])).collect();
        let (local, kind) = (list.local.to_owned(), list.keys[0].kind.to_owned());
        rows.push([
            index,
            access(list.access),
            local,
            kind,
            patterns.join(" | "),
        ]);
    }
    for (how, key) in signature.builds {
        let pattern = pattern_of(key, &[]);
        rows.push([
            "built".to_owned(),
            access(*how),
            String::new(),
            key.kind.to_owned(),
            pattern,
        ]);
    }
    rows
}

fn arg_rows(signature: &Signature) -> Vec<[String; 5]> {
    let mut rows: Vec<[String; 5]> = Vec::new();
    let (mut next, mut after) = (1, None);
    for arg in signature.args {
        let (mut index, mut local) = (format!("ARGV[{next}]"), arg.local.to_owned());
        let what = match arg.form {
            Form::One("prefix") => {
                let (key, parts) = arg.key.expect("a key");
                format!("prefix {}", prefix_of(key, parts))
            }
            Form::One(what) => what.to_owned(),
            Form::Optional(what) => format!("{what} or ''"),
            Form::Counted => {
                after = Some(arg.local);
                "n, then n more".to_owned()
            }
            Form::Rest => {
                index = match after {
                    Some(before) => format!("ARGV[{before}_to + 1..]"),
                    None => format!("ARGV[{next}..]"),
                };
                "to the end".to_owned()
            }
        };
        rows.push([
            index,
            std::mem::take(&mut local),
            what,
            note(arg).to_owned(),
            String::new(),
        ]);
        next += 1;
        if arg.local == "day" {
            rows.push([
                format!("ARGV[{next}]"),
                "day_start_ms".to_owned(),
                "int64".to_owned(),
                String::new(),
                String::new(),
            ]);
            next += 1;
        }
    }
    rows
}

/// The named locals that a script begins with.
fn locals(text: &mut String, signature: &Signature, body: &str) {
    let mut names: Vec<String> = Vec::new();
    for key in signature.keys {
        if names.last().is_none_or(|last| last != key.local) {
            names.push(key.local.to_owned());
        }
    }
    unpacked(text, "KEYS", &names, signature.list.is_some());
    let uses = |name: &str| {
        let found = body.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        found.into_iter().any(|word| word == name)
    };
    let mut ranges: Vec<(String, String)> = Vec::new();
    if let Some(list) = &signature.list {
        ranges.push((
            format!("{}_from", list.local),
            list_start(signature).0.to_string(),
        ));
    }
    let (mut names, mut next, mut more) = (Vec::new(), 1, false);
    let mut after: Option<&str> = None;
    for arg in signature.args {
        let (from, to) = (format!("{}_from", arg.local), format!("{}_to", arg.local));
        match arg.form {
            Form::One(_) | Form::Optional(_) => {
                assert!(
                    !more,
                    "{}: single arguments come first",
                    signature.script.path()
                );
                names.push(arg.local.to_owned());
                next += 1;
                if arg.local == "day" {
                    names.push("day_start_ms".to_owned());
                    next += 1;
                }
            }
            Form::Counted => {
                assert!(
                    after.is_none(),
                    "{}: one counted list",
                    signature.script.path()
                );
                ranges.push((from, (next + 1).to_string()));
                ranges.push((to, format!("{next} + ARGV[{next}]")));
                (after, more) = (Some(arg.local), true);
            }
            Form::Rest => {
                let start =
                    after.map_or_else(|| next.to_string(), |before| format!("{before}_to + 1"));
                ranges.push((from, start));
                more = true;
            }
        }
    }
    unpacked(text, "ARGV", &names, more);
    let used: Vec<_> = ranges.iter().filter(|(name, _)| uses(name)).collect();
    for (name, value) in &ranges {
        if uses(name)
            || used
                .iter()
                .any(|(_, value)| value.starts_with(name.as_str()))
        {
            let _ = writeln!(text, "local {name} = {value}");
        }
    }
}

fn unpacked(text: &mut String, list: &str, names: &[String], more: bool) {
    let count = names.len();
    let values = match (count, more) {
        (0, _) => return,
        (1, _) => format!("= {list}[1]"),
        (_, false) => format!("= unpack({list})"),
        (_, true) => format!("= unpack({list}, 1, {count})"),
    };
    let mut words: Vec<String> = names.iter().map(|name| format!("{name},")).collect();
    let last = words.last_mut().expect("a name");
    last.pop();
    words[0] = format!("local {}", words[0]);
    words.push(values);
    let mut lines = String::new();
    wrapped(&mut lines, "  ", &words, "");
    text.push_str(lines.trim_start());
}

/// The beginning of a key's name, up to the first part that `parts` lack.
fn prefix_of(key: &Key, parts: &[&str]) -> String {
    let (mut prefix, mut parts) = (String::new(), parts.iter());
    for (text, part) in key.pieces {
        prefix.push_str(text);
        match part.and_then(|_| parts.next()) {
            Some(part) => prefix.push_str(&format!("<{part}>")),
            None => break,
        }
    }
    prefix
}

/// The name of a key in a header, without its partition.
fn pattern_of(key: &Key, parts: &[&str]) -> String {
    let place = match key.place {
        "{<p>}:" => "",
        place => place,
    };
    format!("{place}{}", key.pattern(parts))
}
