//! No two modules need each other: neither the top-level modules of `src` nor its files form a circle of imports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{files, read, root};

/// The modules that each module uses.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The path of the module in a file of `src`: `store::runtime` for `src/store/runtime/mod.rs`.
fn module_of(path: &Path) -> String {
    let inside = path.strip_prefix(root().join("src")).expect("in src");
    let parts = inside.with_extension("");
    let parts = parts.iter().map(|part| part.to_string_lossy());
    let parts: Vec<_> = parts.filter(|part| part != "mod").collect();
    parts.join("::")
}

/// The paths that a `use` tree names: `a::{b, c::d}` names `a::b` and `a::c::d`.
fn leaves(tree: &str) -> Vec<String> {
    let Some((prefix, group)) = tree.split_once('{') else {
        return vec![tree.trim().to_owned()];
    };
    let (mut found, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.extend(leaves(&group[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    let prefix = prefix.trim();
    let nonempty = found.into_iter().filter(|leaf| !leaf.is_empty());
    nonempty.map(|leaf| format!("{prefix}{leaf}")).collect()
}

/// Everything that the code of a module names by a path from `crate` or `super`, in `use` and elsewhere.
fn paths(module: &str, text: &str) -> Vec<String> {
    let code: Vec<_> = text
        .split("#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            // `super::super::x` is read from its first `super`.
            if code[..at].ends_with("::") {
                continue;
            }
            let rest = &code[at..];
            let is_use = code[..at].trim_end().ends_with("use");
            let end = match is_use {
                true => rest.find(';'),
                false => rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')),
            };
            let tree = &rest[..end.unwrap_or(rest.len())];
            found.extend(leaves(tree).iter().map(|path| absolute(module, path)));
        }
    }
    found
}

/// The same path from the root of the crate on.
fn absolute(module: &str, path: &str) -> String {
    let mut here: Vec<_> = module.split("::").collect();
    let mut rest = path;
    if let Some(after) = rest.strip_prefix("crate::") {
        return after.to_owned();
    }
    while let Some(after) = rest.strip_prefix("super::") {
        here.pop();
        rest = after;
    }
    here.push(rest);
    here.join("::")
}

/// The circles: sets of modules of which each reaches each by its imports.
fn circles(imports: &Imports) -> BTreeSet<Vec<String>> {
    let reached = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            let new = imports.get(module).into_iter().flatten();
            open.extend(new.filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reach: BTreeMap<_, _> = imports.keys().map(|from| (from, reached(from))).collect();
    let in_circle = |module: &&&String| reach[**module].contains(**module);
    let circle = |module: &&String| {
        let back = |other: &&String| reach.get(other).is_some_and(|back| back.contains(*module));
        reach[*module].iter().filter(back).cloned().collect()
    };
    reach.keys().filter(in_circle).map(circle).collect()
}

/// The files that each file of `src` uses. A module and those inside it count as one another's own.
fn imports_of_files() -> Imports {
    let modules: BTreeMap<_, _> = files("src", "rs")
        .iter()
        .map(|path| (module_of(path), read(path)))
        .collect();
    let mut imports = Imports::new();
    for (module, text) in &modules {
        let own = imports.entry(module.clone()).or_default();
        for path in paths(module, text) {
            let mut target = path.as_str();
            while !modules.contains_key(target) {
                let Some((shorter, _)) = target.rsplit_once("::") else {
                    break;
                };
                target = shorter;
            }
            let inside =
                |one: &str, other: &str| one == other || one.starts_with(&format!("{other}::"));
            if modules.contains_key(target) && !inside(target, module) && !inside(module, target) {
                own.insert(target.to_owned());
            }
        }
    }
    imports
}

#[test]
fn no_two_modules_of_the_library_depend_on_each_other() {
    let mut imports = Imports::new();
    let top = |path: &str| path.split("::").next().unwrap_or_default().to_owned();
    for (module, used) in imports_of_files() {
        if ["lib", "bin"].contains(&top(&module).as_str()) {
            continue;
        }
        let others = used.iter().map(|path| top(path));
        let own = imports.entry(top(&module)).or_default();
        own.extend(others.filter(|other| *other != top(&module)));
    }
    assert_eq!(circles(&imports), BTreeSet::new());
}

#[test]
fn no_two_files_depend_on_each_other() {
    assert_eq!(circles(&imports_of_files()), BTreeSet::new());
}
