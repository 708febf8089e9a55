//! The project's own rules, held by reading its files.

use std::collections::BTreeSet;
use std::path::Path;

use budget_authority::domain::dialect::Dialect;

use super::{files, read, root};

/// Modules that each module of the library may use besides itself; `domain` and `telemetry` use nothing above them.
const ARROWS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("metrics", &[]),
    ("spans", &[]),
    ("driver", &["domain", "metrics"]),
    ("store", &["domain", "driver", "spans"]),
    ("listing", &["domain"]),
    (
        "ledger",
        &["domain", "evidence", "listing", "metrics", "store"],
    ),
    ("egress", &["domain"]),
    ("evidence", &["domain", "metrics", "store"]),
    ("admin", &["domain", "egress", "listing", "store"]),
    ("shutdown", &[]),
    ("config", &["domain", "egress", "evidence", "store"]),
    ("telemetry", &["config", "metrics", "store"]),
    (
        "api",
        &[
            "admin",
            "config",
            "domain",
            "egress",
            "evidence",
            "ledger",
            "listing",
            "shutdown",
            "store",
            "telemetry",
            "spans",
        ],
    ),
    (
        "console",
        &["api", "domain", "evidence", "store", "telemetry"],
    ),
    (
        "serve",
        &[
            "api",
            "config",
            "console",
            "evidence",
            "shutdown",
            "spans",
            "store",
            "telemetry",
        ],
    ),
    (
        "dispatcher",
        &[
            "admin",
            "config",
            "domain",
            "driver",
            "egress",
            "evidence",
            "metrics",
            "shutdown",
            "store",
            "telemetry",
            "spans",
        ],
    ),
    (
        "tools",
        &[
            "api",
            "config",
            "dispatcher",
            "domain",
            "driver",
            "egress",
            "evidence",
            "ledger",
            "serve",
            "shutdown",
            "store",
            "telemetry",
        ],
    ),
];

/// Commands that only read; any other writes.
const READS: &str = "EXISTS GET HEXISTS HGET HGETALL HKEYS HLEN HRANDFIELD HMGET HVALS LLEN LPOS LRANGE SCARD TIME TYPE \
    XLEN XRANGE XREVRANGE ZCARD ZCOUNT ZLEXCOUNT ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE \
    ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCORE";

#[test]
fn every_module_uses_only_the_layers_below_it() {
    let mut wrong = Vec::new();
    for path in files("src", "rs") {
        let inside = path
            .strip_prefix(root().join("src"))
            .expect("a source file");
        let first = inside.iter().next().expect("a part").to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        if matches!(module.as_str(), "lib" | "bin") {
            continue;
        }
        let arrows = ARROWS.iter().find(|(name, _)| *name == module);
        let Some((_, allowed)) = arrows else {
            wrong.push(format!("{module} has no place among the layers"));
            continue;
        };
        let text = read(&path);
        for (at, _) in text.match_indices("crate::") {
            let rest = &text[at + "crate::".len()..];
            let used: String = rest
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            let is_module = ARROWS.iter().any(|(name, _)| *name == used);
            if is_module && used != module && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{} uses {used}", inside.display()));
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The code of a file without its comments and its tests.
fn code(path: &Path) -> String {
    if path.ends_with("tests.rs") || path.iter().any(|part| part == "tests") {
        return String::new();
    }
    let text = read(path);
    let own = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let is_code = |line: &&str| {
        !["//", "--"]
            .iter()
            .any(|mark| line.trim().starts_with(mark))
    };
    own.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// Whoever spells out a vendor's word speaks it in both dialects.
#[test]
fn only_one_module_has_vendor_names() {
    let mut words = vec!["cycles".to_owned(), "cyc_".to_owned()];
    for dialect in Dialect::ALL {
        // Every text among them, as `{:?}` quotes it.
        let all = format!("{:?}", dialect.words());
        let quoted = all.split('"').skip(1).step_by(2).map(str::to_lowercase);
        words.extend(
            quoted.filter(|word| !["service", "evidence", "missing"].contains(&word.as_str())),
        );
    }
    assert!(words.contains(&"x-service-tenant".to_owned()), "{words:?}");
    let mut wrong = Vec::new();
    for path in [files("src", "rs"), files("lua", "lua")].concat() {
        let inside = path.strip_prefix(root()).expect("a file of ours");
        let code = code(&path).to_lowercase();
        let spoken = words.iter().filter(|word| code.contains(word.as_str()));
        if inside != Path::new("src/domain/dialect.rs") {
            wrong.extend(spoken.map(|word| format!("{}: {word}", inside.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_file_has_more_than_400_lines() {
    let mut long = Vec::new();
    for (folder, ending) in [("src", "rs"), ("tests", "rs"), ("lua", "lua")] {
        for path in files(folder, ending) {
            let text = read(&path);
            let own = text
                .split("\n#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default();
            let lines = own.lines().count();
            if lines > 400 {
                long.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

/// Tests poll for a condition (`eventually`). A pause is part of the test, as the comment
/// above it says.
#[test]
fn every_pause_in_a_test_has_a_reason() {
    let (mut unexplained, mut pauses) = (Vec::new(), 0);
    let tests = files("tests/it", "rs").into_iter();
    for path in tests.filter(|path| !path.ends_with("tidy.rs")) {
        let text = read(&path);
        let mut before = "";
        for line in text.lines().map(str::trim) {
            let is_pause = line.contains("sleep(") && line.ends_with([';', ',']);
            if is_pause && !line.contains("sleep(POLL)") {
                pauses += 1;
                if !before.starts_with("//") {
                    unexplained.push(format!("{}: {line}", path.display()));
                }
            }
            before = line;
        }
    }
    assert!(pauses > 20, "{pauses} pauses");
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}

#[test]
fn every_fragment_starts_with_its_name_and_purpose() {
    for path in files("lua/lib", "lua") {
        let text = read(&path);
        let name = path.file_stem().expect("a name").to_string_lossy();
        let opening = ["--[[\n", "--[[ "].map(|open| format!("{open}{name}: "));
        assert!(
            opening.iter().any(|opening| text.starts_with(opening)),
            "lib/{name} says what it is"
        );
    }
}

/// Whether a line of Lua calls a command that writes.
fn calls_a_write(line: &str) -> bool {
    let mut calls = line.split("call('").skip(1);
    let reads = |call: &str| {
        READS
            .split_whitespace()
            .any(|read| Some(read) == call.split('\'').next())
    };
    calls.any(|call| !reads(call))
}

/// Whether a line of Lua calls one of these functions.
fn calls_any(line: &str, functions: &BTreeSet<String>) -> bool {
    functions.iter().any(|function| {
        let call = format!("{function}(");
        line.match_indices(&call)
            .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

/// The name that a line of Lua gives the result of a call: `local name = function(`.
fn named_result(line: &str) -> Option<(&str, &str)> {
    let (name, call) = line.trim().strip_prefix("local ")?.split_once(" = ")?;
    Some((name, call.split_once('(')?.0))
}

/// The functions of the fragments that write, themselves or through one another. A function that only returns one that
/// writes is none; the name that scripts give its result is.
fn writers() -> BTreeSet<String> {
    let mut bodies = Vec::new();
    for path in files("lua/lib", "lua") {
        for function in code(&path).split("\nlocal function ").skip(1) {
            let (name, rest) = function.split_once('(').expect("parameters");
            let body = rest.split("\nend").next().unwrap_or_default().to_owned();
            bodies.push((name.to_owned(), body));
        }
    }
    let scripts: String = files("lua", "lua").iter().map(|path| code(path)).collect();
    let mut writers = BTreeSet::new();
    loop {
        let known = writers.len();
        for (name, body) in &bodies {
            let (own, returned) = body.split_once("return function").unwrap_or((body, ""));
            let writes = |lines: &str| {
                lines
                    .lines()
                    .any(|line| calls_a_write(line) || calls_any(line, &writers))
            };
            if writes(own) {
                writers.insert(name.clone());
            } else if writes(returned) {
                let results = scripts.lines().filter_map(named_result);
                let named = results.filter(|(_, function)| function == name);
                writers.extend(named.map(|(result, _)| result.to_owned()));
            }
        }
        if writers.len() == known {
            return writers;
        }
    }
}

#[test]
fn the_functions_that_write_are_found() {
    let writers = writers();
    for name in [
        "event_append",
        "audit_append",
        "closing_audit",
        "denials_flush",
    ] {
        assert!(writers.contains(name), "{name}: {writers:?}");
    }
    for name in ["audit_trail", "counts_check", "admin_access_refusal"] {
        assert!(!writers.contains(name), "{name}: {writers:?}");
    }
    assert!(writers.len() >= 27, "{writers:?}");
}

/// A script that writes marks where the effects begin; before that line it only reads. The exceptions are the event of a denial and
/// the entry of evidence, which a refusal may write.
#[test]
fn refusals_come_before_effects() {
    let writers = writers();
    let writes = |line: &str| calls_a_write(line) || calls_any(line, &writers);
    for path in files("lua", "lua") {
        if path.parent().is_some_and(|folder| {
            folder
                .components()
                .any(|part| part.as_os_str() == "lib" || part.as_os_str() == "batch")
        }) {
            continue;
        }
        let text = read(&path);
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let body = text.split_once("]]").expect("a header").1;
        if !body.lines().any(writes) {
            continue;
        }
        assert!(
            !text
                .lines()
                .next()
                .unwrap_or_default()
                .contains("no-writes"),
            "{name} says that it writes nothing"
        );
        let (before, after) = body
            .split_once("-- Effects")
            .unwrap_or_else(|| panic!("{name} marks where its effects begin"));
        assert!(
            !after.contains("counts_move(") || before.contains("counts_check("),
            "{name} moves counts that it has not checked"
        );
        let mut in_emit = false;
        for line in before.lines() {
            let begins = ["local function emit(", "local function evaluated("];
            let begins = begins.iter().any(|begin| line.starts_with(begin));
            in_emit = (in_emit || begins) && line != "end";
            assert!(
                in_emit || !writes(line),
                "{name} writes before its effects: {line}"
            );
            assert!(
                line.contains("local function")
                    || !line.contains("emit(")
                    || line.contains("{denied ="),
                "{name} emits more than a denial before its effects: {line}"
            );
        }
        for word in [
            "unauthorized",
            "forbidden",
            "mismatch",
            "not_found",
            "corrupt",
            "fenced",
            "clock",
        ] {
            assert!(
                !after.contains(&format!("return {{'{word}")),
                "{name} refuses with {word} after it wrote"
            );
        }
    }
}
