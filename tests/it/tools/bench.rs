//! The benchmark against the real service.

use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::process::Command;

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::faulty_proxy::{self, Fault};

/// Runs `budget-authority bench` for a short time.
async fn run(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    command.arg("bench").args(words).stdin(Stdio::null());
    command.output().await.expect("the binary is built")
}

/// The same, and reads its JSON.
async fn bench(words: &[&str]) -> (Output, Value) {
    let short = ["--json", "--duration", "300ms", "--warmup", "50ms"];
    let output = run(&[words, &short].concat()).await;
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, report)
}

/// Measures a service that runs already.
async fn measured(url: &str, words: &[&str]) -> (Output, Value) {
    let service = ["--url", url, "--admin-key", ADMIN_KEY];
    bench(&[&service, words].concat()).await
}

/// Requests in which the faults have struck: each seventh one goes wrong.
const ENOUGH: u64 = 15;

/// Measures a service behind a proxy with this fault, again if the machine was so busy that there were too few requests.
async fn measured_with(fault: Fault, workload: &str) -> (Output, Value) {
    for _ in 0..10 {
        let app = TestApp::spawn().await;
        let url = faulty_proxy::start(app.address, fault).await;
        let measured = measured(&url, &["--clients", "4", "--workload", workload]).await;
        let requests = measured.1["requests"].as_u64().expect("a number");
        if requests >= ENOUGH {
            return measured;
        }
        println!("{fault:?}: {requests} requests");
    }
    panic!("never enough requests");
}

fn error_rate(report: &Value) -> f64 {
    report["error_rate"].as_f64().expect("a share")
}

/// Whether each of these operations was measured at least once.
fn are_timed(report: &Value, names: &[&str]) -> bool {
    let operations = report["operations"].as_array().expect("operations");
    let is_timed = |name: &&str| {
        let mut timed = operations
            .iter()
            .filter(|timed| timed["operation"] == *name);
        timed.any(|timed| timed["p50_us"].as_f64() > Some(0.0))
    };
    names.iter().all(is_timed)
}

#[tokio::test]
async fn ledgers_agree_with_the_responses() {
    let app = TestApp::spawn().await;
    let url = format!("http://{}", app.address);
    let steps = [
        ("reserve", &["reserve"][..]),
        ("commit", &["reserve", "commit"]),
        ("release", &["reserve", "release"]),
        (
            "mixed",
            &["reserve", "commit", "release", "decide", "event"],
        ),
        ("decide", &["decide"]),
        ("event", &["event"]),
    ];
    for (workload, steps) in steps {
        let words = ["--clients", "8", "--scopes", "6", "--workload", workload];
        let mut is_complete = false;
        // A busy machine may not come to each operation in so short a time.
        for _ in 0..5 {
            let (output, report) = measured(&url, &words).await;
            assert!(output.status.success(), "{output:?}");
            assert_eq!(report["ledger"]["agrees"], true, "{report}");
            assert_eq!(report["errors"], Value::Array(vec![]), "{report}");
            assert_eq!(error_rate(&report), 0.0, "{report}");
            is_complete = are_timed(&report, &[steps, &["all"]].concat());
            if is_complete {
                break;
            }
        }
        assert!(is_complete, "{workload}");
    }
    let wrong_key = ["--url", &url, "--admin-key", "wrong"];
    assert_eq!(run(&wrong_key).await.status.code(), Some(2));
}

#[tokio::test]
async fn a_lost_response_is_recovered_and_counted_once() {
    for fault in [Fault::LosesResponses, Fault::RespondsUnavailable] {
        let (_, report) = measured_with(fault, "mixed").await;
        assert_eq!(report["ledger"]["agrees"], true, "{fault:?} {report}");
        assert!(error_rate(&report) > 0.05, "{fault:?} {report}");
    }
}

#[tokio::test]
async fn a_wrong_ledger_is_reported() {
    for fault in [Fault::ChargesReplays, Fault::ChargesAUnit] {
        let (output, report) = measured_with(fault, "commit").await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        // Three scopes, on both planes.
        let differences = report["ledger"]["differences"].as_array().expect("a list");
        assert_eq!(differences.len(), 6, "{fault:?} {report}");
        assert_eq!(report["ledger"]["agrees"], false, "{report}");
    }
    let app = TestApp::spawn().await;
    let url = faulty_proxy::start(app.address, Fault::ChargesAUnit).await;
    let words = ["--url", &url, "--admin-key", ADMIN_KEY];
    // The seventh request is in it, however long the machine stalls.
    let output = run(&[&words[..], &["--duration", "5s", "--warmup", "0s"]].concat()).await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("does NOT agree"), "{text}");
}

#[tokio::test]
async fn a_refusal_is_counted_as_an_error_but_not_as_a_difference() {
    let (output, report) = measured_with(Fault::Refuses, "mixed").await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(report["ledger"]["agrees"], true, "{report}");
    assert_eq!(report["errors"][0]["code"], "BUDGET_EXCEEDED");
    assert!(error_rate(&report) > 0.05, "{report}");
}

#[tokio::test]
async fn without_a_service_nothing_is_measured() {
    let (output, _) = measured("http://127.0.0.1:1", &[]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let report = String::from_utf8_lossy(&output.stderr);
    let expected = "bench: the service at http://127.0.0.1:1 cannot be reached: ";
    // Behind the warning of the key on the command line.
    let found = report.lines().any(|line| line.starts_with(expected));
    assert!(found, "{report}");
}

fn between(value: &Value, least: f64, most: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|value| (least..=most).contains(&value))
}

#[tokio::test]
async fn the_comparison_starts_what_it_needs_and_every_request_is_one_round_trip_timed() {
    let mut attempts = 0;
    let (output, report) = loop {
        attempts += 1;
        let (output, report) = bench(&["--compare"]).await;
        // A busy machine may make a call of its services time out, or only a few requests beside their own calls.
        let is_calm = output.status.success() && between(&report["round_trips"], 1.0, 1.02);
        if is_calm || attempts == 5 {
            break (output, report);
        }
        println!("{output:?}");
        // Whatever happens, no ledger differs.
        let runs = report["http"].as_array().into_iter().flatten();
        for run in runs {
            assert_eq!(run["ledger"]["agrees"], true, "{run}");
        }
    };
    assert!(output.status.success(), "{output:?}");
    let runs = report["http"].as_array().expect("runs");
    assert_eq!(runs.len(), 6);
    for run in runs {
        assert_eq!(run["ledger"]["agrees"], true, "{run}");
        assert_eq!(run["errors"], Value::Array(vec![]), "{run}");
    }
    for script in report["scripts"].as_array().expect("scripts") {
        assert!(between(&script["redis_busy"], 0.001, 1.0), "{script}");
    }
    assert_eq!(
        report["script_differences"],
        Value::Array(vec![]),
        "{report}"
    );
    assert!(
        between(&report["round_trips"], 1.0, 1.02),
        "{}",
        report["round_trips"]
    );
    assert!(
        between(&report["bytes_per_reservation"], 300.0, 1_200.0),
        "{report}"
    );
}

#[tokio::test]
async fn impossible_options_are_refused() {
    for (words, reason) in [
        (
            "--workload reserve --duration 54m --warmup 61s",
            "55 minutes at most",
        ),
        (
            "--workload mixed --compare --duration 16m",
            "15 minutes at most",
        ),
        ("--compare --deliver", "cannot be used with"),
        ("--duration 10", "a time with its unit"),
        ("--duration 25h", "a time with its unit"),
        ("--warmup -1s", "unexpected argument"),
        ("--warmup s", "a time with its unit"),
        ("--url 127.0.0.1:7878", "not a URL"),
        ("--url https://api.test", "plain http"),
        ("--url http://me@api.test", "no query"),
        ("--url http://api.test?x=1", "no query"),
    ] {
        let output = run(&words.split(' ').collect::<Vec<_>>()).await;
        assert_eq!(output.status.code(), Some(2), "{words}");
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(report.contains(reason), "{words}: {report}");
    }
}

#[tokio::test]
async fn every_delivery_arrives_once() {
    let (output, report) = bench(&["--deliver"]).await;
    let rows = report["rows"].as_array();
    let rows = rows.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(rows.len(), 13, "{report}");
    assert_eq!(
        (&report["missing"], &report["repeated"]),
        (&0.into(), &0.into()),
        "{report}"
    );
    let killed = "longest pause of a lane after kill -9";
    let paused = rows.iter().find(|row| row["what"] == killed);
    let paused = paused.expect("a row");
    assert!(between(&paused["value"], 0.0, 30.0), "{report}");
}
