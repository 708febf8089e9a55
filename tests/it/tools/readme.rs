//! Every command of README.md, run as a reader pastes it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::dev_stack::{Stack, WorkFolder};
use crate::harness::eventually;
use crate::http::clients::{prepare, succeed, target};

/// Where `make run` listens, as README.md says.
const PRINTED_URL: &str = "http://127.0.0.1:7878";

/// README.md, with the address of a stack instead of the default one.
fn readme(stack_url: &str) -> String {
    document("README.md", stack_url)
}

/// The same of another document.
fn document(name: &str, stack_url: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = std::fs::read_to_string(path).expect(name);
    assert!(text.contains(PRINTED_URL), "{name} names the address");
    text.replace(PRINTED_URL, stack_url)
}

/// The code blocks of one language, in their order.
fn blocks(readme: &str, language: &str) -> Vec<String> {
    let fence = format!("\n```{language}\n");
    let blocks = readme
        .split(&fence)
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap_or(rest));
    blocks.map(str::to_owned).collect()
}

/// The text under a heading.
fn section<'a>(readme: &'a str, heading: &str) -> &'a str {
    let (_, rest) = readme
        .split_once(&format!("\n## {heading}\n"))
        .expect(heading);
    rest.split("\n## ").next().unwrap_or(rest)
}

/// The three balances in a unit.
fn rows<'a>(balances: &'a Value, unit: &str) -> Vec<&'a Value> {
    let all = balances["balances"].as_array().expect("rows").iter();
    let rows: Vec<_> = all.filter(|row| row["spent"]["unit"] == unit).collect();
    assert_eq!(rows.len(), 3, "{balances}");
    rows
}

/// The arguments of each `make run ARGS=…`, as the words of a command line.
fn run_arguments(readme: &str) -> Vec<Vec<String>> {
    let uses = readme.split("make run ARGS=").skip(1);
    let values = uses.map(|rest| match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next().unwrap_or(quoted),
        None => rest.split(['`', ' ', '\n']).next().unwrap_or(rest),
    });
    let words = |value: &str| value.split_whitespace().map(str::to_owned).collect();
    values.map(words).collect()
}

#[tokio::test]
async fn the_first_reservation_and_its_denial_work_when_pasted() {
    let folder = WorkFolder::new();
    let stack = Stack::start(&folder, &[]).await;
    let readme = readme(&stack.url);
    let script = blocks(section(&readme, "First reservation"), "sh").join("\necho\n");
    let mut shell = Command::new("sh");
    shell.args(["-euc", &script]);
    let output = shell.current_dir(folder.path("home")).output();
    let output = output.expect("a shell");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{:?}", output.stderr);
    let bodies = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
    let bodies: Vec<Value> = bodies.map(|body| body.expect("JSON")).collect();
    let [reserved, committed, balances, denied] = bodies.as_slice() else {
        panic!("not four responses: {printed}");
    };
    assert_eq!(reserved["decision"], "ALLOW");
    assert_eq!(reserved["balances"].as_array().map(Vec::len), Some(3));
    assert_eq!(committed["charged"]["amount"], 400);
    assert_eq!(committed["released"]["amount"], 600);
    for balance in rows(balances, "TOKENS") {
        assert_eq!(balance["spent"]["amount"], 400, "{balance}");
        assert_eq!(balance["reserved"]["amount"], 0, "{balance}");
    }
    assert_eq!(denied["error"], "BUDGET_EXCEEDED");
}

#[tokio::test]
async fn the_receiver_prints_the_denial() {
    let folder = WorkFolder::new();
    let stack = Stack::start(&folder, &[]).await;
    let readme = readme(&stack.url);
    let names = blocks(section(&readme, "First reservation"), "sh").swap_remove(0);
    let webhooks = document("docs/webhooks.md", &stack.url);
    let script = blocks(section(&webhooks, "Try it"), "sh").swap_remove(0);
    let port = crate::harness::redis::free_port().to_string();
    let printed = folder.path("receiver");
    let script = script
        .replace("9000", &port)
        .replace(
            "examples/",
            concat!(env!("CARGO_MANIFEST_DIR"), "/examples/"),
        )
        .replace(
            " &\n",
            &format!(" > {} 2>&1 & echo $! > receiver-id\n", printed.display()),
        );
    let mut shell = Command::new("sh");
    shell.args(["-euc", &format!("{names}\n{script}")]);
    let program = Path::new(env!("CARGO_BIN_EXE_budget-authority")).parent();
    let path = format!(
        "{}:{}",
        program.expect("a folder").display(),
        std::env::var("PATH").expect("a path")
    );
    shell.env("PATH", path).current_dir(folder.path("home"));
    succeed(shell).await;
    let receiver = std::fs::read_to_string(folder.path("home/receiver-id")).expect("a process");
    // The receiver may not listen yet at the first attempt.
    let denied = eventually("the event arrives", || async {
        let lines = std::fs::read_to_string(&printed).ok()?;
        lines.contains(" reservation.denied ").then_some(lines)
    });
    let denied = denied.await;
    let mut kill = Command::new("kill");
    kill.arg(receiver.trim());
    succeed(kill).await;
    assert!(denied.contains("tenant:demo"), "{denied}");
}

#[tokio::test]
async fn the_arguments_of_make_run_start_a_stack() {
    let uses = run_arguments(&readme(PRINTED_URL));
    assert_eq!(uses.len(), 3, "{uses:?}");
    for arguments in uses {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let folder = WorkFolder::new();
        match arguments.as_slice() {
            ["--help"] => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
                command.args(["dev", "--help"]);
                succeed(command).await;
            }
            arguments => drop(Stack::start(&folder, arguments).await),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_example_works_when_pasted() {
    prepare("python").await;
    let folder = WorkFolder::new();
    let settings = ["--dialect", "cycles", "--data", ".data-cycles"];
    let stack = Stack::start(&folder, &settings).await;
    let [example] = blocks(&readme(&stack.url), "python")
        .try_into()
        .expect("one example");
    let mut python = Command::new(target().join("python/bin/python"));
    python
        .args(["-c", &example])
        .current_dir(folder.path("home"));
    succeed(python).await;
    let balances = format!("{}/v1/balances?tenant=demo", stack.url);
    let key = std::fs::read_to_string(folder.path("home/.data-cycles/demo-key")).expect("a key");
    let request = crate::harness::http::client().get(balances);
    let response = request.header("X-Cycles-API-Key", key).send().await;
    let text = response.expect("a response").text().await.expect("a body");
    let balances: Value = serde_json::from_str(&text).expect("JSON");
    for balance in rows(&balances, "USD_MICROCENTS") {
        assert_eq!(balance["spent"]["amount"], 19_000, "{balance}");
    }
}
