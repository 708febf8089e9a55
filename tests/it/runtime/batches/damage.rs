//! Damaged data under a batch: its members respond, and leave behind, what they do when they run one after the other.

use std::collections::BTreeMap;

use redis::{Cmd, ErrorKind, RedisResult, Value};

use super::captured::{Captured, Copy};
use super::fixture::BatchFixture;
use super::together::Batch;

/// What is done to a key, and how a failure names it.
struct Damage {
    name: String,
    commands: Vec<Cmd>,
}

fn command(words: &[&str]) -> Cmd {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_under_damage_are_what_they_are_alone() {
    each_damage(Batch::Create).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_under_damage_are_what_they_are_alone() {
    each_damage(Batch::Change).await;
}

async fn each_damage(batch: Batch) {
    let prepared = BatchFixture::of(batch).await;
    let mut copy = Copy::of(&prepared.server);
    let (mut failures, mut successes) = (0, 0);
    for damage in damages(&prepared.captured, &mut copy) {
        // Where a minute begins, counts start anew: then once more.
        let (alone, expected, together, found) = loop {
            let minute = minute(&mut copy);
            copy.renew(&damage.commands);
            let calls = prepared.captured.calls();
            let calls = calls.iter().map(|call| comparable(&copy.run(call)));
            let alone: Vec<_> = calls.collect();
            let expected = copy.contents();
            copy.renew(&damage.commands);
            let reply = copy.run(&prepared.captured.call());
            let Ok(Value::Array(replies)) = reply else {
                panic!("{}: {reply:?}", damage.name);
            };
            let replies = replies.into_iter().map(|it| comparable(&Ok(it)));
            let together: Vec<_> = replies.collect();
            let found = copy.contents();
            if self::minute(&mut copy) == minute {
                break (alone, expected, together, found);
            }
        };
        assert_eq!(together, alone, "{}", damage.name);
        assert_same(&found, &expected, &damage.name);
        let failed = alone.iter().filter(|it| it.starts_with("error")).count();
        failures += failed;
        successes += alone.len() - failed;
    }
    println!("{failures} failed, {successes} did not");
    assert!(failures > 50 && successes > 50, "{failures} {successes}");
}

/// The minute of the clock of the copy.
fn minute(copy: &mut Copy) -> i64 {
    let time = copy.run(&command(&["TIME"])).expect("a time");
    let (seconds, _): (i64, i64) = redis::from_redis_value(time).expect("two numbers");
    seconds / 60
}

/// Each key of the members as one of another type, each stream as one that takes no more entries, and each field of the ledgers, the
/// tenants, the API keys and the records as one that is no number.
fn damages(captured: &Captured, copy: &mut Copy) -> Vec<Damage> {
    copy.renew(&[]);
    let mut keys = captured.keys().to_vec();
    let stored = copy.run(&command(&["KEYS", "*{*"])).expect("keys");
    keys.extend(redis::from_redis_value::<Vec<String>>(stored).expect("texts"));
    keys.sort();
    keys.dedup();
    let mut damages = vec![Damage {
        name: "nothing".to_owned(),
        commands: Vec::new(),
    }];
    for key in keys {
        damages.push(Damage {
            name: format!("{key} of another type"),
            commands: vec![command(&["DEL", &key]), command(&["RPUSH", &key, "x"])],
        });
        if [":events:", ":outbox", ":unsigned"]
            .iter()
            .any(|kind| key.contains(kind))
        {
            let last = format!("{0}-{0}", u64::MAX);
            damages.push(Damage {
                name: format!("{key} full"),
                commands: vec![
                    command(&["DEL", &key]),
                    command(&["XADD", &key, &last, "x", "x"]),
                ],
            });
        }
        let fields = copy.run(&command(&["HKEYS", &key]));
        let fields = fields.map(redis::from_redis_value::<Vec<String>>);
        for field in fields.into_iter().flatten().flatten() {
            for value in ["x", ""] {
                damages.push(Damage {
                    name: format!("{key} {field} = `{value}`"),
                    commands: vec![command(&["HSET", &key, &field, value])],
                });
            }
            damages.push(Damage {
                name: format!("{key} without {field}"),
                commands: vec![command(&["HDEL", &key, &field])],
            });
        }
    }
    damages
}

/// A reply without times and places in streams, or the error without the place in the script.
fn comparable(reply: &RedisResult<Value>) -> String {
    match reply {
        Ok(Value::Array(words)) => {
            let words: Vec<_> = words.iter().map(|it| timeless(&text(it))).collect();
            match words[0].as_str() {
                "fault" | "unknown" => format!("error {}", without_place(&words[1])),
                _ => words.join(" "),
            }
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => {
            let code = error.code().unwrap_or("ERR");
            let detail = error.detail().unwrap_or_default();
            let is_known = error.kind() != ErrorKind::Io;
            assert!(is_known, "{error}");
            format!("error {}", without_place(&format!("{code} {detail}")))
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
        other => redis::from_redis_value(other.clone()).unwrap_or_default(),
    }
}

/// The same with `T` for each time, and for each place in a stream.
fn timeless(text: &str) -> String {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let (mut comparable, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_digit) {
        let digits = rest[start..].find(|it| !is_digit(it));
        let end = digits.map_or(rest.len(), |length| start + length);
        comparable.push_str(&rest[..start]);
        let is_time = end - start == 13;
        comparable.push_str(if is_time { "T" } else { &rest[start..end] });
        rest = &rest[end..];
        if let (true, Some(behind)) = (is_time, rest.strip_prefix('-')) {
            rest = behind.trim_start_matches(is_digit);
        }
    }
    comparable + rest
}

/// Without where in the script it was raised.
fn without_place(error: &str) -> String {
    let error = error.split(" script: ").next().unwrap_or_default();
    let words = error.split(' ').map(|word| {
        if word.contains("user_script") {
            "user_script"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

type Contents = BTreeMap<String, Vec<String>>;

fn assert_same(found: &Contents, expected: &Contents, damage: &str) {
    let names: Vec<_> = found.keys().collect();
    assert_eq!(names, expected.keys().collect::<Vec<_>>(), "{damage}");
    for (name, lines) in found {
        let comparable =
            |lines: &[String]| -> Vec<_> { lines.iter().map(|it| timeless(it)).collect() };
        assert_eq!(
            comparable(lines),
            comparable(&expected[name]),
            "{damage}: {name}"
        );
    }
}
