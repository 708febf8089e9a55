//! The scripts as Redis gets them, with all fragments included.

use std::io::Write;
use std::process::{Command, Stdio};

use budget_authority::store::Script;
use budget_authority::store::scripts::all;

use crate::harness::redis::shared;

#[test]
fn redis_accepts_every_script() {
    let refused = |script: &Script| {
        let client = redis::Client::open(shared().url()).expect("a url");
        let mut connection = client.get_connection().expect("it runs");
        let loaded = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(script.source())
            .exec(&mut connection);
        loaded
            .err()
            .map(|error| format!("{}: {error}", script.name()))
    };
    let refused: Vec<_> = all().filter_map(refused).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn every_name_that_a_script_uses_is_defined_in_it() {
    let complaints: Vec<_> = all().flat_map(complaints).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// What luacheck says about an assembled script, with the places in the files it came from.
fn complaints(script: &Script) -> Vec<String> {
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
        .args([
            "--read-globals",
            "redis",
            "KEYS",
            "ARGV",
            "cjson",
            "bit",
            "struct",
            "cmsgpack",
        ])
        // A part may define more than this script needs, and be included where names of the script are in sight.
        .args([
            "--ignore",
            "211",
            "231",
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
    // 0: nothing to say, 1: warnings, 2: errors in the text; anything else is luacheck's own trouble.
    let expected = if problems.is_empty() { 0..=0 } else { 1..=2 };
    let code = output.status.code();
    assert!(
        code.is_some_and(|code| expected.contains(&code)),
        "luacheck ended with {code:?} on `{}`: {text}",
        script.name()
    );
    problems
}
