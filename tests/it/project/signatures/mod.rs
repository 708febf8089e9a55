//! What is written from the declarations of keys and scripts: the headers of `lua/` (`make signatures`), and `docs/redis.md`
//! (`make docs`).

mod document;
mod header;
mod layout;

use std::fs;
use std::path::{Path, PathBuf};

use budget_authority::store::keys::Key;
use budget_authority::store::scripts::SIGNATURES;
use budget_authority::store::signature::{Access, Signature};

use document::document;
use header::header;

const END_OF_SIGNATURE: &str = "-- End of the signature.\n";
const BEGIN: &str = "<!-- Made by `make docs` from the declarations in src/store. -->\n";
const END: &str = "<!-- End of what `make docs` makes. -->\n";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a file with what it should be, or writes it. Only `UPDATE_SNAPSHOTS` writes.
fn accept(path: &Path, expected: &str, stale: &mut Vec<PathBuf>) {
    let found = fs::read_to_string(path).unwrap_or_default();
    if found == expected {
        return;
    }
    match std::env::var_os("UPDATE_SNAPSHOTS") {
        Some(_) => fs::write(path, expected).expect("the file can be written"),
        None => stale.push(path.to_owned()),
    }
}

#[test]
fn the_headers_of_scripts_are_those_of_the_declarations() {
    let mut stale = Vec::new();
    for signature in SIGNATURES {
        let path = root().join(format!("lua/{}.lua", signature.script.path()));
        let text = fs::read_to_string(&path).expect("the script is there");
        let body = text
            .split_once(END_OF_SIGNATURE)
            .map_or(&*text, |(_, body)| body);
        accept(
            &path,
            &format!("{}{body}", header(signature, body)),
            &mut stale,
        );
    }
    assert!(
        stale.is_empty(),
        "run `make signatures`, it rewrites {stale:#?}"
    );
}

#[test]
fn the_document_of_keys_is_that_of_the_declarations() {
    let path = root().join("docs/redis.md");
    let text = fs::read_to_string(&path).expect("the document is there");
    let (before, rest) = text.split_once(BEGIN).expect("where the keys begin");
    let (_, after) = rest.split_once(END).expect("where the keys end");
    let mut stale = Vec::new();
    let written = [before, BEGIN, &document(), END, after].concat();
    accept(&path, &written, &mut stale);
    assert!(stale.is_empty(), "run `make docs`, it rewrites {stale:?}");
}

#[test]
fn every_script_is_declared_and_every_declaration_has_its_script() {
    let mut files = Vec::new();
    let mut folders = vec![root().join("lua")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true if path.ends_with("lua/lib") => {}
                true => folders.push(path),
                false => files.push(
                    path.strip_prefix(root())
                        .expect("a file of ours")
                        .to_owned(),
                ),
            }
        }
    }
    files.sort();
    let path =
        |signature: &&Signature| PathBuf::from(format!("lua/{}.lua", signature.script.path()));
    let mut declared: Vec<_> = SIGNATURES.iter().map(path).collect();
    declared.sort();
    assert_eq!(files, declared);
}

/// A script without `no-writes` could write keys that it declares as read; its flags would not tell.
#[test]
fn a_declaration_does_not_contradict_itself() {
    for signature in SIGNATURES {
        let name = signature.script.path();
        let accesses = signature.keys.iter().map(|key| key.access);
        let accesses = accesses
            .chain(signature.list.iter().map(|list| list.access))
            .chain(signature.builds.iter().map(|(access, _)| *access));
        let writes = accesses.into_iter().any(|access| access == Access::Write);
        let reads_only = signature.flags.contains("no-writes");
        assert_eq!(writes, !reads_only, "{name}: flags and keys");
        assert_eq!(signature.writes == "Nothing.", reads_only, "{name}: writes");
        // A key that does not exist yet has to be in KEYS, or a slot that moves would make a second one.
        let args = signature.args.iter();
        for (key, _) in args.filter_map(|arg| arg.key) {
            let written = |(access, built): &(Access, &Key)| {
                *access == Access::Write && std::ptr::eq(*built, key)
            };
            assert!(
                key.kind == "prefix" || !signature.builds.iter().any(written),
                "{name} writes a key that only ARGV names"
            );
        }
        let named = signature.args.iter().any(|arg| arg.key.is_some());
        assert!(
            !named || signature.script.builds_keys(),
            "{name} is given names of keys, so it builds some"
        );
        let clock = signature.replies.iter().any(|word| word.word == "clock");
        assert_eq!(
            clock, signature.by_day,
            "{name}: who is given the day checks it"
        );
        for key in signature.keys {
            assert_ne!(key.key.kind, "prefix", "{name}: {} is no key", key.local);
        }
    }
}
