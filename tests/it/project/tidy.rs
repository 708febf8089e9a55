//! The project's own rules, held by reading its files.

use std::path::Path;

use budget_authority::domain::dialect::Dialect;

use super::{files, read, root};

/// What each module of the library may use besides itself; `domain` and `telemetry` use nothing above them.
const ARROWS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("driver", &["domain"]),
    ("store", &["domain", "driver"]),
    ("listing", &["domain"]),
    ("ledger", &["domain", "listing", "store"]),
    ("egress", &["domain"]),
    ("admin", &["domain", "egress", "listing", "store"]),
    ("shutdown", &[]),
    ("config", &["domain", "egress", "store"]),
    ("telemetry", &["config", "store"]),
    (
        "api",
        &[
            "admin",
            "config",
            "domain",
            "egress",
            "ledger",
            "listing",
            "shutdown",
            "store",
            "telemetry",
        ],
    ),
    (
        "serve",
        &["api", "config", "shutdown", "store", "telemetry"],
    ),
    (
        "dispatcher",
        &[
            "admin",
            "config",
            "domain",
            "driver",
            "shutdown",
            "store",
            "telemetry",
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
            "serve",
            "shutdown",
            "store",
            "telemetry",
        ],
    ),
];

/// Commands that write.
const WRITES: &[&str] = &[
    "'HSET'",
    "'HDEL'",
    "'HINCRBY'",
    "'ZADD'",
    "'ZREM'",
    "'ZINCRBY'",
    "'ZREMRANGEBYSCORE'",
    "'XADD'",
    "'XTRIM'",
    "'DEL'",
    "'UNLINK'",
    "'PEXPIRE'",
    "'PEXPIREAT'",
    "'PERSIST'",
    "'SET'",
    "'RPUSH'",
];

/// Functions of the shared parts that write.
const WRITERS: &[&str] = &[
    "ledger_write_hold(",
    "ledger_write_charge(",
    "event_append(",
    "events_point(",
    "audit_append(",
    "funding_write(",
    "funding_events(",
    "idempotency_keep(",
    "day_register(",
    "denial_append(",
    "denials_flush(",
    "rates_count(",
    "audit_failure_append(",
    "audit_failures_flush(",
    "ledger_events(",
    "closing_advance(",
    "closing_audit(",
    "closing_request_keep(",
    "closing_request_audit(",
    "watch_apply(",
    "bulk_rows_keep(",
    "tenant_close_begin(",
    "tenant_flip_event(",
    "watch_write(",
    "counts_move(",
    "failing_write(",
    "over_limit_or_in_debt_write(",
];

#[test]
fn every_module_uses_only_the_layers_below_it() {
    let mut wrong = Vec::new();
    for path in files("src", "rs") {
        let inside = path
            .strip_prefix(root().join("src"))
            .expect("a source file");
        let first = inside
            .components()
            .next()
            .expect("a part")
            .as_os_str()
            .to_string_lossy();
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
    if path.ends_with("tests.rs") {
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
fn one_module_alone_spells_out_the_words_of_the_vendors() {
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
        // The one module, and a module that only tests have.
        let allowed = ["src/domain/dialect.rs", "src/tools/bench/fake.rs"];
        if !allowed.iter().any(|one| inside.ends_with(one)) {
            wrong.extend(spoken.map(|word| format!("{}: {word}", inside.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_file_is_too_long_to_read() {
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

#[test]
fn every_fragment_opens_with_what_it_is() {
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

/// A script that writes marks where the effects begin; before that line it only reads. The one exception is the event
/// of a denial, which a refusal may write.
#[test]
fn refusals_come_before_effects() {
    for path in files("lua", "lua") {
        if path
            .parent()
            .is_some_and(|folder| folder.components().any(|part| part.as_os_str() == "lib"))
        {
            continue;
        }
        let text = read(&path);
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let body = text.split_once("]]").expect("a header").1;
        let writes = |line: &str| {
            WRITES
                .iter()
                .any(|write| line.contains(write) && line.contains("call("))
                || WRITERS.iter().any(|writer| line.contains(writer))
        };
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
            in_emit = (in_emit || line.starts_with("local function emit(")) && line != "end";
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
