//! The dashboards of the chart: every panel says what it shows, its queries are sound, and they and the alerts use metrics that a
//! running service exposes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use budget_authority::api::probes::metrics_router;
use budget_authority::telemetry::Telemetry;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::chart::promtool;
use super::{files, read, root};
use crate::admin::webhooks::subscriptions::made;
use crate::harness::app::{ANY, TestApp};
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached};
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::{eventually, http};

const FOLDER: &str = "helm/budget-authority/files/dashboards";
const ALERTS: &str = "helm/budget-authority/files/alerts.yaml";

/// The dashboards by the names of their files.
fn dashboards() -> Vec<(String, Value)> {
    let named = |path: &std::path::PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy();
        let dashboard = serde_json::from_str(&read(path)).expect("JSON");
        (name.into_owned(), dashboard)
    };
    files(FOLDER, "json").iter().map(named).collect()
}

/// The panels that have queries.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let panels = dashboard["panels"].as_array().expect("panels");
    panels.iter().filter(|it| it["type"] != "row").collect()
}

fn queries(panel: &Value) -> Vec<&str> {
    let targets = panel["targets"].as_array().expect("targets");
    let query = |target: &'_ Value| target["expr"].as_str().is_some();
    assert!(!targets.is_empty() && targets.iter().all(query), "{panel}");
    targets
        .iter()
        .filter_map(|it| it["expr"].as_str())
        .collect()
}

#[test]
fn the_four_dashboards_exist() {
    let dashboards = dashboards();
    let names: Vec<_> = dashboards.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["overview", "redis", "tenant", "webhooks"]);
    let ids: BTreeSet<_> = dashboards
        .iter()
        .map(|(_, it)| it["uid"].as_str())
        .collect();
    assert_eq!(ids.len(), 4);
    for (name, dashboard) in &dashboards {
        let least = if name == "overview" { 25 } else { 8 };
        assert!(panels(dashboard).len() >= least, "{name}");
        let source = &dashboard["templating"]["list"][0];
        assert_eq!(source["type"], "datasource", "{name}");
    }
}

#[test]
fn every_panel_has_a_description_and_names_its_processes() {
    for (name, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            for named in ["/title", "/description", "/fieldConfig/defaults/unit"] {
                let text = panel.pointer(named).and_then(Value::as_str);
                assert!(
                    text.is_some_and(|text| !text.is_empty()),
                    "{name}: {named} of {panel}"
                );
            }
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}");
            for query in queries(panel) {
                check_query(query);
            }
        }
    }
}

/// Every metric of a query is of the chosen processes, and counters are in a rate or an increase.
fn check_query(query: &str) {
    let mut metrics = 0;
    for (at, _) in query.match_indices('{') {
        let (before, labels) = (&query[..at], &query[at..]);
        for label in ["namespace", "job", "instance"] {
            let own = format!("{label}=~\"${label}\"");
            let end = labels.find('}').expect("an end");
            assert!(labels[..end].contains(&own), "{query}");
        }
        let start = before.rfind(|c: char| !c.is_ascii_lowercase() && c != '_');
        let (around, metric) = before.split_at(start.map_or(0, |start| start + 1));
        let counts = ["_total", "_count", "_sum", "_bucket"];
        let counts = counts.iter().any(|ending| metric.ends_with(ending));
        let is_rate = around.ends_with("rate(") || around.ends_with("increase(");
        assert_eq!(counts, is_rate, "{query}");
        metrics += 1;
    }
    assert!(metrics > 0, "{query}");
    let windows = query.matches('[').count();
    assert_eq!(
        windows,
        query.matches("[$__rate_interval]").count(),
        "{query}"
    );
}

#[test]
fn the_queries_of_all_dashboards_are_valid() {
    let mut rules = Vec::new();
    for (_, dashboard) in dashboards() {
        for query in panels(&dashboard).into_iter().flat_map(queries) {
            let query = query.replace("$__rate_interval", "5m");
            rules.push(json!({"record": format!("query_{}", rules.len()), "expr": query}));
        }
    }
    assert!(rules.len() > 70, "{} queries", rules.len());
    let name = format!(
        "budget-authority-queries-{:016x}.yaml",
        rand::random::<u64>()
    );
    let path = std::env::temp_dir().join(name);
    // JSON is YAML too.
    let groups = json!({"groups": [{"name": "dashboards", "rules": rules}]});
    fs::write(&path, groups.to_string()).expect("it is written");
    let checked = promtool(&["check", "rules", &path.to_string_lossy()]);
    fs::remove_file(&path).expect("it is ours");
    checked.expect("sound queries");
}

/// The metrics that a text names outside of quotes, without what a histogram appends.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let unquoted = text.split('"').step_by(2);
    let words = unquoted.flat_map(|text| text.split(|letter| !is_part(letter)));
    let ours = words.filter(|word| word.starts_with("budget_") || word.starts_with("process_"));
    let endings = ["_bucket", "_count", "_sum"];
    let without = |word: &str| {
        let short = endings.iter().find_map(|ending| word.strip_suffix(ending));
        short.unwrap_or(word).to_owned()
    };
    ours.map(without).collect()
}

/// Serves the metrics of a process, as the process does; the address.
async fn serving(telemetry: &Telemetry) -> String {
    let listener = TcpListener::bind(ANY).await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let router = metrics_router(telemetry.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/metrics")
}

/// The metrics that a scrape of these addresses has.
async fn exposed(addresses: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for address in addresses {
        let response = http::get(address).await.expect("a response");
        let text = response.text().await.expect("text");
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        names.extend(types.filter_map(|line| Some(line.split(' ').next()?.to_owned())));
    }
    names
}

/// Does once what some metrics count that are not there before.
async fn use_all(app: &TestApp) {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let hook = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
    let id = made(app, hook).await;
    fund(app, 1).await;
    reached(app, &id, "SUCCESS", 1).await;
    let wrong = app.request(Method::GET, "/v1/balances");
    assert_eq!(wrong.send().await.expect("a response").status(), 401);
    let caps = json!({"tool_denylist": vec!["x".repeat(200); 30]});
    let policy =
        json!({"tenant_id": "umbra", "name": "p", "scope_pattern": "tenant:umbra", "caps": caps});
    let refused = app.post_as_admin("/v1/admin/policies", policy).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test]
async fn dashboards_and_alerts_use_metrics_that_a_running_service_exposes() {
    let app = here().await;
    let running = RunningDispatcher::with_gauges(&app, &["umbra"]);
    use_all(&app).await;
    let mut texts: Vec<String> = dashboards()
        .iter()
        .flat_map(|(_, it)| {
            panels(it)
                .into_iter()
                .flat_map(queries)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    texts.push(fs::read_to_string(root().join(Path::new(ALERTS))).expect("the alerts"));
    let used = metrics(&texts.join("\n"));
    assert!(used.len() > 50, "{used:?}");
    let addresses = [
        serving(&app.telemetry).await,
        serving(&running.telemetry).await,
    ];
    eventually("all metrics are exposed", || async {
        let exposed = exposed(&addresses).await;
        let missing: Vec<_> = used.difference(&exposed).cloned().collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(missing)
        }
    })
    .await;
}
