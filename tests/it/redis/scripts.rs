//! The scripts as Redis gets them, with all fragments included; and each fragment alone.

use std::io::Write;
use std::process::{Command, Stdio};

use budget_authority::store::Script;
use budget_authority::store::fragments::FRAGMENTS;
use budget_authority::store::runtime::batch;

use crate::harness::redis::shared;
use crate::harness::signatures::SIGNATURES;

static BATCHES: [&Script; 2] = [&batch::CREATE, &batch::CHANGE];

fn scripts() -> impl Iterator<Item = &'static Script> {
    let scripts = SIGNATURES.iter().map(|signature| &signature.script);
    scripts.chain(BATCHES)
}

#[test]
fn redis_accepts_every_script() {
    let refused = |script: &'static Script| {
        assert!(script.source().starts_with("#!lua"), "{}", script.name());
        load(script.source())
            .err()
            .map(|error| format!("{}: {error}", script.name()))
    };
    let refused: Vec<_> = scripts().filter_map(refused).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn scripts_use_only_names_that_they_define() {
    let globals = ["redis", "KEYS", "ARGV", "bit"];
    let complaints = scripts().flat_map(|script| complaints(script, &globals));
    let complaints: Vec<_> = complaints.collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Lua allows a function 200 locals and 60 names of those around it. Batches need more of both with each operation and fragment.
#[test]
fn batches_have_room_for_more_names() {
    for script in BATCHES {
        let names: String = (0..10).map(|i| format!("local spare{i} = {i}\n")).collect();
        let used: String = (0..10)
            .map(|i| format!("spare{i} = spare{i} + 1\n"))
            .collect();
        let more: String = (10..40)
            .map(|i| format!("local spare{i} = {i}\n"))
            .collect();
        let source = script.source().replace(
            "\nlocal OPERATIONS",
            &format!("\n{names}{more}local OPERATIONS"),
        );
        let source = source.replace(
            "= function(KEYS, ARGV)\n",
            &format!("= function(KEYS, ARGV)\n{used}"),
        );
        assert!(source.matches("spare9 + 1").count() == 3, "{source}");
        let loaded = load(&source);
        assert!(loaded.is_ok(), "{}: {loaded:?}", script.name());
    }
}

fn load(source: &str) -> redis::RedisResult<()> {
    let client = redis::Client::open(shared().url()).expect("a url");
    let mut connection = client.get_connection().expect("it runs");
    redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(source)
        .exec(&mut connection)
}

/// A fragment includes what it calls, and is given what it needs: it does not count on the script around it.
#[test]
fn every_fragment_loads_alone() {
    let mut found = Vec::new();
    for (name, _) in FRAGMENTS {
        let text = format!("#!lua\n-- @include {name}\n").leak();
        let script = Script::new(name, text, FRAGMENTS, false);
        found.extend(complaints(&script, &["redis"]));
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The warnings of luacheck about an assembled script with these globals, with file and line.
fn complaints(script: &Script, globals: &[&str]) -> Vec<String> {
    let mut luacheck = Command::new("luacheck")
        .args([
            "--no-config",
            "--std",
            "lua51",
            "--no-color",
            "--codes",
            "--formatter",
            "plain",
        ])
        .arg("--read-globals")
        .args(globals)
        // A fragment may define more than this script needs, be included where names of the script are in sight, and replace a
        // function for others.
        .args([
            "--ignore",
            "211",
            "231",
            "311",
            "431",
            "432",
            "--max-line-length",
            "140",
            "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("luacheck is installed (Debian: lua-check)");
    let mut stdin = luacheck.stdin.take().expect("a pipe");
    // The first line is Redis's, not Lua's.
    let lua = script.source().replacen("#!lua", "--", 1);
    stdin.write_all(lua.as_bytes()).expect("it is read");
    drop(stdin);
    let output = luacheck.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let translate = |line: &str| {
        let (number, message) = line.strip_prefix("stdin:")?.split_once(':')?;
        let place = script.place(number.parse().ok()?)?;
        Some(format!("{}: {place}:{message}", script.name()))
    };
    let problems: Vec<_> = text.lines().filter_map(translate).collect();
    // 0: no findings, 1: warnings, 2: syntax errors; anything else is a failure of luacheck.
    let expected = if problems.is_empty() { 0..=0 } else { 1..=2 };
    let code = output.status.code();
    assert!(
        code.is_some_and(|code| expected.contains(&code)),
        "luacheck ended with {code:?} on `{}`: {text}",
        script.name()
    );
    problems
}
