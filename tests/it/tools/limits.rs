//! `budget-authority limits`.

use std::process::{Command, Output};

use serde_json::{Value, json};

fn limits(flags: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_budget-authority"))
        .arg("limits")
        .args(flags)
        .envs(environment.iter().copied())
        .output()
        .expect("the binary runs")
}

#[test]
fn every_limit_is_printed_with_its_value_and_default() {
    let output = limits(&["--json"], &[("BUDGET_POLICIES_PER_TENANT", "7")]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let named = |setting: &str| lines.iter().find(|line| line["setting"] == setting);
    let policies = named("BUDGET_POLICIES_PER_TENANT").expect("a limit");
    assert_eq!(
        (&policies["value"], &policies["default"]),
        (&json!("7"), &json!("1000"))
    );
    let body = named("BUDGET_BODY_LIMIT_BYTES").expect("a limit");
    assert_eq!(body["value"], body["default"]);
    assert!(named("BUDGET_REDIS_URL").is_none(), "no limit");
}

#[test]
fn a_value_that_serve_would_refuse_is_refused() {
    let output = limits(&[], &[("BUDGET_POLICIES_PER_TENANT", "0")]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).expect("text");
    assert!(message.contains("policies-per-tenant"), "{message}");
}
