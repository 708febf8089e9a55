//! Scripts as they are assembled and sent.

use super::*;

fn words(command: &Cmd) -> Vec<String> {
    let words = command.args_iter().map(|arg| match arg {
        redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => panic!("a cursor"),
    });
    words.collect()
}

#[test]
fn an_error_names_the_file_and_line_that_raised_it() {
    const FRAGMENTS: &[(&str, &str)] = &[("money", "-- adds\nlocal function add() end\n")];
    let text = "#!lua\n-- @include money\nreturn 1\n";
    let script = Script::new("runtime/fixture", text, FRAGMENTS, false);
    let place = |detail: &str| match script.error("ERR", detail) {
        StoreError::Script { place, message, .. } => (place, message),
        other => panic!("{other}"),
    };
    let detail = "user_script:3: boom script: 0ff1ce, on @user_script:3.";
    assert_eq!(
        place(detail),
        ("lib/money.lua:2".into(), "ERR user_script:3: boom".into())
    );
    assert_eq!(
        place("x script: 0ff1ce, on @user_script:4.").0,
        "runtime/fixture.lua:3"
    );
    assert_eq!(place("no line").0, "runtime/fixture.lua");
}

#[test]
fn a_call_with_the_text_has_the_same_keys_and_arguments() {
    let script = Script::new("fixture", "#!lua\nreturn 1\n", &[], false);
    let mut command = script.command(1);
    ("k", ("a", 7_i64, "d")).push(&mut command);
    let (by_name, whole) = (words(&command), words(&script.whole(&command)));
    assert_eq!(by_name[..2], ["EVALSHA", script.sha()]);
    assert_eq!(whole[..2], ["EVAL", script.source()]);
    assert_eq!(by_name[2..], whole[2..]);
    assert_eq!(whole[2..], ["1", "k", "a", "7", "d"]);
}

#[test]
fn values_are_packed_as_text() {
    let script = Script::new("fixture", "#!lua\nreturn 1\n", &[], false);
    let mut command = script.command(0);
    let facts = Counted(vec![("name", "value"), ("other", "")]);
    "a".push(&mut command);
    7_i64.push(&mut command);
    true.push(&mut command);
    None::<&str>.push(&mut command);
    facts.push(&mut command);
    [("x", 1_i64, false)][..].push(&mut command);
    let sent = words(&command);
    let expected = [
        "0", "a", "7", "1", "", "4", "name", "value", "other", "", "x", "1", "0",
    ];
    assert_eq!(sent[2..], expected);
}
