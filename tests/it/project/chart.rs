//! The Helm chart, as far as that takes no Helm: its alerts are explained and fire when they must, and what is made of its values and
//! of the settings is up to date. `make chart` checks the rest.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::{files, read, root};

const ALERTS: &str = "helm/budget-authority/files/alerts.yaml";

/// Runs promtool; what it wrote, if it refused.
pub(super) fn promtool(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("promtool").args(arguments).output();
    let output = output.map_err(|error| format!("`.ci/need promtool` installs it: {error}"))?;
    let text = [output.stdout, output.stderr].concat();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&text).into_owned()),
    }
}

#[test]
fn the_alerts_are_valid_and_fire() {
    let path = |path: &Path| root().join(path).to_string_lossy().into_owned();
    promtool(&["check", "rules", &path(Path::new(ALERTS))]).expect("sound rules");
    let tests = files("helm/tests", "yaml");
    assert!(tests.len() >= 4, "only {tests:?}");
    let tests: Vec<_> = tests.iter().map(|test| path(test)).collect();
    let mut arguments = vec!["test", "rules"];
    arguments.extend(tests.iter().map(String::as_str));
    promtool(&arguments).expect("alerts that fire, and are silent");
}

/// The alerts whose silence would be noticed last have a test.
#[test]
fn alerts_about_evidence_webhooks_memory_and_secrets_are_tested() {
    let tests: String = files("helm/tests", "yaml")
        .iter()
        .map(|it| read(it))
        .collect();
    let rules = read(Path::new(ALERTS));
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let kinds = [
        "Evidence",
        "Webhook",
        "Memory",
        "Secret",
        "DeploymentRecord",
    ];
    let chosen: Vec<_> = alerts
        .filter(|name| kinds.iter().any(|kind| name.contains(kind)))
        .collect();
    assert!(chosen.len() >= 10, "only {chosen:?}");
    for alert in chosen {
        let fires = tests.split("alertname: ").skip(1).any(|text| {
            let own = text.split("eval_time").next().unwrap_or_default();
            own.starts_with(alert) && own.contains("exp_alerts")
        });
        let is_silent = tests.contains(&format!("alertname: {alert}}}"));
        assert!(fires && is_silent, "{alert}");
    }
}

#[test]
fn exactly_the_existing_alerts_are_documented() {
    let rules = read(Path::new(ALERTS));
    let alerts: BTreeSet<_> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    let document = read(Path::new("docs/monitoring.md"));
    let explained: BTreeSet<_> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `Budget"))
        .filter_map(|row| row.split('`').next())
        .map(|rest| format!("Budget{rest}"))
        .collect();
    assert!(alerts.len() >= 20, "only {alerts:?}");
    assert_eq!(alerts, explained.iter().map(String::as_str).collect());
}

#[test]
fn the_generated_files_of_the_chart_are_up_to_date() {
    let output = Command::new(root().join("helm/generate"))
        .arg("--check")
        .output()
        .expect("python3 is there");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}
