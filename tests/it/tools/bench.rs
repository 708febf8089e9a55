//! The benchmark against the real service.

use std::process::{Command, ExitCode, Output};

use budget_authority::tools::bench::{self, BenchArgs};
use clap::Parser;
use serde_json::Value;

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::redis;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

const SHORT: [&str; 4] = ["--duration", "300ms", "--warmup", "50ms"];

#[tokio::test]
async fn the_ledgers_of_the_service_agree_with_what_it_answered() {
    let app = TestApp::spawn().await;
    let url = format!("http://{}", app.address);
    let words = [
        "bench",
        "--url",
        &url,
        "--admin-key",
        ADMIN_KEY,
        "--clients",
        "8",
        "--scopes",
        "6",
    ];
    let outcome = bench::run(Cli::parse_from(words.iter().chain(&SHORT)).bench).await;
    assert_eq!(outcome, ExitCode::SUCCESS);
    let wrong_key = ["bench", "--url", &url, "--admin-key", "wrong"];
    let outcome = bench::run(Cli::parse_from(wrong_key).bench).await;
    assert_eq!(outcome, ExitCode::from(2));
}

/// Runs `budget-authority bench` and reads its JSON.
fn bench(words: &[&str]) -> (Output, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    command.args(["bench", "--json"]).args(SHORT).args(words);
    let output = command.output().expect("the binary is built");
    let said = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, said)
}

fn between(value: &Value, least: f64, most: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|value| (least..=most).contains(&value))
}

#[test]
fn the_comparison_starts_what_it_needs_and_every_request_is_one_round_trip() {
    let (output, said) = bench(&["--compare"]);
    assert!(output.status.success(), "{output:?}");
    let runs = said["http"].as_array().expect("runs");
    assert_eq!(runs.len(), 6);
    for run in runs {
        assert_eq!(run["ledger"]["agrees"], true, "{run}");
        assert_eq!(run["errors"], Value::Array(vec![]), "{run}");
    }
    for script in said["scripts"].as_array().expect("scripts") {
        assert!(between(&script["redis_busy"], 0.01, 1.0), "{script}");
    }
    assert_eq!(said["script_differences"], Value::Array(vec![]), "{said}");
    assert!(
        between(&said["round_trips"], 1.0, 1.02),
        "{}",
        said["round_trips"]
    );
    assert!(
        between(&said["bytes_per_reservation"], 300.0, 1_200.0),
        "{said}"
    );
}

#[test]
fn the_scripts_alone_leave_nothing_behind() {
    let server = redis::RedisServer::start();
    let (output, said) = bench(&["--bare", "--redis-url", &server.url()]);
    assert!(output.status.success(), "{output:?}");
    let scripts = said["scripts"].as_array().expect("scripts");
    assert_eq!(scripts[0]["operation"], "reserve");
    // All that was reserved is committed, and so say the ledgers; one call of each loads the script.
    assert_eq!(scripts[0]["count"], scripts[1]["count"]);
    assert_eq!(said["differences"], Value::Array(vec![]), "{said}");
    assert_eq!(server.run::<u64>(&["DBSIZE"]), 0);
}

#[test]
fn a_run_that_outlives_its_holds_is_refused() {
    let words = ["--workload", "reserve", "--url", "http://127.0.0.1:1"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    command.args(["bench", "--duration", "56m"]).args(words);
    let output = command.output().expect("the binary is built");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("55 minutes at most"), "{said}");
}

#[test]
fn what_is_stored_is_measured_in_stages() {
    let (output, said) = bench(&["--compare-stored", "100,400"]);
    assert!(output.status.success(), "{output:?}");
    let stages = said["stages"].as_array().expect("stages");
    assert_eq!(stages[0]["stored"], 100);
    assert_eq!(said["differences"], Value::Array(vec![]), "{said}");
    for cost in stages
        .iter()
        .flat_map(|stage| stage["costs"].as_array().expect("costs"))
    {
        assert!(between(&cost["round_trips"], 1.0, 1.02), "{cost}");
    }
    let names: Vec<_> = stages[1]["costs"]
        .as_array()
        .expect("costs")
        .iter()
        .map(|cost| cost["operation"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(
        names,
        [
            "get",
            "balances page",
            "list, first page",
            "list, page by page",
            "reserve"
        ]
    );
}
