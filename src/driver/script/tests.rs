//! Scripts as they are assembled and sent.

use super::*;
use crate::script_args;

#[test]
fn an_error_names_the_file_and_line_that_raised_it() {
    let script = Script::new("runtime", "fixture", "", &[]);
    let text = "#!lua\n-- @include money\nreturn 1\n";
    let parts = [("money", "-- adds\nlocal function add() end\n")];
    let (source, origins) = assemble("fixture", text, &parts).expect("it assembles");
    let sha = String::new();
    assert!(
        script
            .assembled
            .set(Assembled {
                source,
                sha,
                origins
            })
            .is_ok()
    );
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
    let meta = Script::new("", "meta", "#!lua\n--[[\nKEYS[1] k\nARGV[1..] a\n]]\n", &[]);
    let command = meta.command(&["k"], script_args!["a", 7_i64, "", "d"]);
    let words = |command: &Cmd| {
        let words = command.args_iter().map(|arg| match arg {
            redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => panic!("a cursor"),
        });
        words.collect::<Vec<_>>()
    };
    let (by_name, whole) = (words(&command), words(&meta.whole(&command)));
    assert_eq!(by_name[..2], ["EVALSHA", meta.sha()]);
    assert_eq!(whole[..2], ["EVAL", meta.source()]);
    assert_eq!(by_name[2..], whole[2..]);
    assert_eq!(whole[2..], ["1", "k", "a", "7", "", "d"]);
}

#[test]
fn arguments_are_packed_as_text() {
    let any = Script::new(
        "",
        "any",
        "#!lua\n--[[\nany: x\nKEYS[1] k\nARGV[1..] a\n]]\n",
        &[],
    );
    let command = any.command(
        &["k"],
        script_args!["a", b"b", 7_i64, true, None::<&str>, &String::from("s")],
    );
    let sent = String::from_utf8(command.get_packed_command()).expect("text");
    let words: Vec<_> = sent.split("\r\n").skip(1).step_by(2).collect();
    assert_eq!(words[0], "$7");
    assert!(
        sent.ends_with("$1\r\na\r\n$1\r\nb\r\n$1\r\n7\r\n$1\r\n1\r\n$0\r\n\r\n$1\r\ns\r\n"),
        "{sent}"
    );
}
