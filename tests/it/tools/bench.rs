//! The benchmark against the real service.

use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::process::Command;

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::faulty_proxy::{self, Fault};
use crate::harness::redis;

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

/// Measures a service behind a proxy with this fault.
async fn measured_with(fault: Fault, workload: &str) -> (Output, Value) {
    let app = TestApp::spawn().await;
    let url = faulty_proxy::start(app.address, fault).await;
    measured(&url, &["--clients", "4", "--workload", workload]).await
}

fn error_rate(report: &Value) -> f64 {
    report["error_rate"].as_f64().expect("a share")
}

#[tokio::test]
async fn the_ledgers_of_the_service_agree_with_what_it_answered() {
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
        let (output, report) = measured(&url, &words).await;
        assert!(output.status.success(), "{output:?}");
        assert_eq!(report["ledger"]["agrees"], true, "{report}");
        assert_eq!(report["errors"], Value::Array(vec![]), "{report}");
        assert_eq!(error_rate(&report), 0.0, "{report}");
        let operations = report["operations"].as_array().expect("operations");
        for name in steps.iter().chain(&["all"]) {
            let mut timed = operations
                .iter()
                .filter(|timed| timed["operation"] == *name);
            assert!(
                timed.any(|timed| timed["p50_us"].as_f64() > Some(0.0)),
                "{report}"
            );
        }
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
    let output = run(&[&words[..], &["--duration", "200ms", "--warmup", "0s"]].concat()).await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("does NOT agree"), "{text}");
}

#[tokio::test]
async fn a_refusal_is_an_error_but_no_difference() {
    let (output, report) = measured_with(Fault::Refuses, "mixed").await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(report["ledger"]["agrees"], true, "{report}");
    assert_eq!(report["errors"][0]["code"], "BUDGET_EXCEEDED");
    assert!(error_rate(&report) > 0.05, "{report}");
}

#[tokio::test]
async fn nothing_is_measured_without_a_service() {
    let (output, _) = measured("http://127.0.0.1:1", &[]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let report = String::from_utf8_lossy(&output.stderr);
    let expected = "bench: the service at http://127.0.0.1:1 cannot be reached: ";
    assert!(report.starts_with(expected), "{report}");
}

fn between(value: &Value, least: f64, most: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|value| (least..=most).contains(&value))
}

#[tokio::test]
async fn the_comparison_starts_what_it_needs_and_every_request_is_one_round_trip() {
    let (output, report) = bench(&["--compare"]).await;
    assert!(output.status.success(), "{output:?}");
    let runs = report["http"].as_array().expect("runs");
    assert_eq!(runs.len(), 6);
    for run in runs {
        assert_eq!(run["ledger"]["agrees"], true, "{run}");
        assert_eq!(run["errors"], Value::Array(vec![]), "{run}");
    }
    for script in report["scripts"].as_array().expect("scripts") {
        assert!(between(&script["redis_busy"], 0.01, 1.0), "{script}");
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
async fn the_scripts_alone_leave_nothing_behind() {
    let server = redis::RedisServer::start();
    let (output, report) = bench(&["--bare", "--redis-url", &server.url()]).await;
    assert!(output.status.success(), "{output:?}");
    let scripts = report["scripts"].as_array().expect("scripts");
    assert_eq!(scripts[0]["operation"], "reserve");
    // All that was reserved is committed, and so do the ledgers show; one call of each loads the script.
    assert_eq!(scripts[0]["count"], scripts[1]["count"]);
    assert_eq!(report["differences"], Value::Array(vec![]), "{report}");
    assert_eq!(server.run::<u64>(&["DBSIZE"]), 0);
}

#[tokio::test]
async fn a_run_that_outlives_its_holds_is_refused() {
    let words = ["--workload", "reserve", "--url", "http://127.0.0.1:1"];
    let output = run(&[&words[..], &["--duration", "56m"]].concat()).await;
    assert_eq!(output.status.code(), Some(2));
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(report.contains("55 minutes at most"), "{report}");
}

#[tokio::test]
async fn a_tenant_at_every_limit_harms_no_ledger_of_another() {
    // Times decide the exit code, and this machine may be busy.
    let (output, report) = bench(&["--limits"]).await;
    let rows = report["rows"].as_array();
    let rows = rows.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(rows.len(), 8);
    for row in rows {
        for strikes in [&row["quiet"]["strikes"], &row["beside"]["strikes"]] {
            let ended = ["done", "limited", "failed"].map(|how| strikes[how].as_u64());
            assert!(ended.iter().any(|count| count > &Some(0)), "{row}");
            let failure = strikes["first_failure"].as_str();
            assert!(
                failure.is_none_or(|text| text.contains("failed: 503")),
                "{row}"
            );
        }
    }
    assert_eq!(report["errors"], 0);
    assert_eq!(report["differences"], Value::Array(vec![]), "{report}");
}

#[tokio::test]
async fn what_is_delivered_arrives_once() {
    let (output, report) = bench(&["--deliver"]).await;
    let rows = report["rows"].as_array();
    let rows = rows.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(rows.len(), 15, "{report}");
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

#[tokio::test]
async fn what_evidence_costs_is_measured_beside_a_service_without_it() {
    // Bounds are for machines that do nothing else, so they decide no exit code.
    let (output, report) = bench(&["--evidence"]).await;
    assert!(output.status.success(), "{output:?}");
    let rounds = report["rounds"].as_array().expect("rounds");
    let sides = rounds.iter().map(|round| round["evidence"].as_str());
    let sides: Vec<_> = sides.flatten().collect();
    assert_eq!(sides, ["off", "on", "on", "off"].repeat(4));
    let rows = report["rows"].as_array().expect("rows");
    for row in rows {
        let what = row["what"].as_str().expect("a name");
        // The memory of so few reservations may be below zero, because Redis frees other memory meanwhile.
        let is_difference = what == "reserve script, on more than off"
            || what.starts_with("memory of a reservation")
            || what.starts_with("memory once committed");
        assert!(is_difference || between(&row["value"], 1e-3, 1e9), "{row}");
    }
    assert_eq!(rows.len(), 17, "{report}");
    let read = rows.last().expect("a row");
    assert_eq!(read["what"], "round trips to Redis per envelope read");
    assert!(between(&read["value"], 1.0, 1.02), "{read}");
    assert_eq!(
        (&report["errors"], &report["missing"]),
        (&0.into(), &0.into())
    );
    assert_eq!(report["differences"], Value::Array(vec![]), "{report}");
}

#[tokio::test]
async fn what_is_stored_is_measured_in_stages() {
    let (output, report) = bench(&["--compare-stored", "100,400"]).await;
    assert!(output.status.success(), "{output:?}");
    let stages = report["stages"].as_array().expect("stages");
    assert_eq!(stages[0]["stored"], 100);
    assert_eq!(report["differences"], Value::Array(vec![]), "{report}");
    for cost in stages
        .iter()
        .flat_map(|measured| measured["costs"].as_array().expect("costs"))
    {
        // A slow machine makes few requests while they are counted, and the service sends commands of its own.
        assert!(between(&cost["round_trips"], 1.0, 1.1), "{cost}");
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
