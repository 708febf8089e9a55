//! `budget-authority admin` on a terminal: colours and lines that fit; plain text everywhere else.

use std::io::Read;
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;
use tokio::task::spawn_blocking;

use crate::harness::admin_cli::AdminCli;
use crate::harness::terminal::terminal;

/// The output of a command on a terminal of this many columns.
async fn on_terminal(command: &mut Command, columns: u16) -> String {
    let (mut ours, its) = terminal(columns);
    let mut child = command
        .stdout(Stdio::from(its))
        .spawn()
        .expect("the binary is built");
    // Ours would keep the terminal open.
    command.stdout(Stdio::null());
    let printed = spawn_blocking(move || {
        let mut bytes = Vec::new();
        // It ends with an error when the last other end is closed.
        let _ = ours.read_to_end(&mut bytes);
        String::from_utf8(bytes).expect("text")
    });
    assert!(child.wait().await.expect("it ends").success());
    printed.await.expect("it is read").replace("\r\n", "\n")
}

const ESCAPE: char = '\u{1b}';

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_gets_colours_unless_they_are_turned_off() {
    let operator = AdminCli::new(&[]).await;
    operator.run("tenant create umbrella").await.done();
    operator.run("tenant suspend umbrella").await.done();
    let list = || {
        let mut command = operator.command("tenant list --search umbrella");
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        command
    };
    let coloured = on_terminal(&mut list(), 200).await;
    assert!(coloured.contains("\u{1b}[33mSUSPENDED"), "{coloured:?}");
    assert!(coloured.starts_with("\u{1b}[1mTENANT"), "{coloured:?}");
    let plain = operator.run("tenant list --search umbrella").await.out;
    assert!(!plain.contains(ESCAPE), "{plain:?}");
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let printed = on_terminal(list().env(name, value), 200).await;
        assert_eq!(printed, plain, "{name}");
    }
    let json = on_terminal(&mut operator.command("--json tenant show umbrella"), 200).await;
    assert!(!json.contains(ESCAPE) && json.starts_with('{'), "{json:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_takes_one_line_of_a_terminal_and_is_whole_in_a_pipe() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 1000).await;
    let reason = "r".repeat(200);
    let fund = format!("budget fund tenant:acme --credit 1 --reason {reason}");
    operator.run(&fund).await.done();
    let tail = || {
        let mut command = operator.command("event tail --tenant acme");
        command.env("NO_COLOR", "1");
        command
    };
    let printed = on_terminal(&mut tail(), 100).await;
    let widths: Vec<_> = printed.lines().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width <= 100), "{printed}");
    assert!(printed.contains('…'), "{printed}");
    let piped = operator.run("event tail --tenant acme").await.out;
    assert_eq!(piped.lines().count(), widths.len());
    assert!(piped.contains(&format!("reason={reason}")), "{piped}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_of_usage_has_bars_shares_and_dollars_on_a_terminal() {
    let operator = AdminCli::new(&[]).await;
    let budget = "budget create tenant:acme --unit USD_MICROCENTS --allocated 10usd";
    operator.run(budget).await.done();
    for (key, microcents) in [("chat", 75_000_000), ("mail", 25_000_000)] {
        let amount = json!({"actual": {"unit": "USD_MICROCENTS", "amount": microcents}});
        let scope = format!("tenant:acme/app:{key}");
        let posted = operator.app.post_event(key, &scope, 0, amount);
        posted.await.expect(201);
    }
    let mut command = operator.command("usage --tenant acme --by app");
    let printed = on_terminal(command.env("NO_COLOR", "1"), 200).await;
    let lines: Vec<_> = printed.lines().collect();
    let chat = "chat  USD_MICROCENTS    $0.75  75.0 %  ███████████████░░░░░     $0.00      1";
    let mail = "mail  USD_MICROCENTS    $0.25  25.0 %  █████░░░░░░░░░░░░░░░     $0.00      1";
    assert_eq!(lines[1..3], [chat, mail], "{printed}");
    let mut command = operator.command("usage why tenant:acme --unit USD_MICROCENTS");
    let printed = on_terminal(command.env("NO_COLOR", "1"), 200).await;
    let figures = "$9.00 remaining = $10.00 allocated - $1.00 spent - $0.00 held - $0.00 debt";
    assert!(printed.contains(figures), "{printed}");
}

#[tokio::test]
async fn tables_start_with_the_name_of_the_row() {
    let operator = AdminCli::new(&[]).await;
    operator.budget("tenant:acme", 1000).await;
    operator
        .run("policy create --tenant acme --name all --scope-pattern tenant:acme/* --priority 12")
        .await
        .done();
    for (command, headings) in [
        ("tenant list", "TENANT NAME STATUS CREATED"),
        (
            "policy list --tenant acme",
            "POLICY NAME STATUS PRIORITY PATTERN",
        ),
        (
            "budget list --tenant acme",
            "SCOPE UNIT STATUS ALLOCATED REMAINING RESERVED SPENT DEBT",
        ),
        (
            "key list --tenant acme",
            "KEY NAME TENANT STATUS EXPIRES SCOPES MADE BY BEGINS WITH",
        ),
    ] {
        let table = operator.run(command).await.out;
        // Where there are no rows, there are no headings.
        let Some(first) = table.lines().next() else {
            continue;
        };
        let words: Vec<_> = first.split_whitespace().collect();
        assert_eq!(words.join(" "), headings, "{command}");
    }
    let budgets = operator.run("budget list --tenant acme").await.out;
    let lines: Vec<_> = budgets.lines().collect();
    let end_of = |line: &str, text: &str| line.find(text).map(|at| at + text.len());
    assert_eq!(
        end_of(lines[0], "ALLOCATED"),
        end_of(lines[1], "1000"),
        "{budgets}"
    );
}
