//! The Helm chart, as far as that takes no Helm: its alerts and its dashboard use for metrics that exist, and what is made of its values
//! and of the settings is up to date. `make chart` checks the rest.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{files, read, root};

const ALERTS: &str = "helm/budget-authority/files/alerts.yaml";
const DASHBOARD: &str = "helm/budget-authority/files/overview.json";

/// The words of a text that can be metrics of ours, without what a histogram appends.
fn metrics(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    let ours = words.filter(|word| word.starts_with("budget_") || word.starts_with("process_"));
    let endings = ["_bucket", "_count", "_sum"];
    ours.map(|word| {
        let short = endings.iter().find_map(|ending| word.strip_suffix(ending));
        short.unwrap_or(word)
    })
    .collect()
}

#[test]
fn alerts_and_dashboard_use_metrics_that_exist() {
    let code: String = files("src", "rs").iter().map(|path| read(path)).collect();
    for (path, least) in [(ALERTS, 20), (DASHBOARD, 25)] {
        let text = read(Path::new(path));
        let used = metrics(&text);
        assert!(used.len() >= least, "{path}: only {used:?}");
        let exists = |name: &&str| code.contains(&format!("\"{name}\""));
        let unknown: Vec<_> = used.into_iter().filter(|name| !exists(name)).collect();
        assert!(unknown.is_empty(), "{path}: no such metric: {unknown:?}");
    }
}

#[test]
fn every_alert_is_explained_and_no_other() {
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
fn every_panel_of_the_dashboard_says_what_it_shows() {
    let dashboard: Value = serde_json::from_str(&read(Path::new(DASHBOARD))).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let panels: Vec<_> = panels
        .iter()
        .filter(|panel| panel["type"] != "row")
        .collect();
    assert!(panels.len() >= 15);
    for panel in panels {
        for named in ["/title", "/description", "/fieldConfig/defaults/unit"] {
            assert!(panel.pointer(named).is_some(), "{named} of {panel}");
        }
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            for label in ["job", "instance"] {
                assert!(query.contains(&format!("{label}=~\"${label}\"")), "{query}");
            }
            let counts = query.contains("_total{");
            assert!(!counts || query.contains("[$__rate_interval]"), "{query}");
        }
    }
}

#[test]
fn what_is_made_of_the_values_of_the_chart_is_up_to_date() {
    let output = Command::new(root().join("helm/generate"))
        .arg("--check")
        .output()
        .expect("python3 is there");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}
