//! How many series a replica exposes: few, whatever tenants and strangers send.

use budget_authority::store::ExtraRoundTrip;

use super::*;
use crate::harness::eventually;
use crate::harness::signatures::SIGNATURES;

/// The most series that a replica may expose.
const SERIES_MAX: usize = 1_500;

/// Labels of limits that no setting changes.
const CONSTANT_LIMITS: [&str; 10] = [
    "metadata_bytes",
    "metrics_bytes",
    "caps_bytes",
    "scope_filter_entries",
    "thresholds_per_owner",
    "burn_windows",
    "webhook_tests_per_minute",
    "gathering_lists",
    "scanned_rows_per_second",
    "admin_key_failures",
];

/// Scripts of dispatchers that replicas run too.
const OF_BOTH: [&str; 4] = ["expire", "count_traffic", "count_burn", "auth_failed"];

fn series(app: &TestApp) -> BTreeSet<String> {
    let text = app.telemetry.render().expect("metrics");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let name = |line: &str| line.rsplit_once(' ').expect("a value").0.to_owned();
    lines.map(name).collect()
}

fn document_of(name: &str) -> String {
    let path = format!("{}/docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).expect("a document")
}

/// The value of the only label of a series.
fn labels(series: &BTreeSet<String>, metric: &str) -> BTreeSet<String> {
    let label = |name: &String| {
        let labels = name.strip_prefix(metric)?;
        labels.split('"').nth(1).map(str::to_owned)
    };
    series.iter().filter_map(label).collect()
}

/// The labels that scripts of a replica have.
fn of_scripts() -> BTreeSet<String> {
    let scripts = SIGNATURES.iter().map(|signature| &signature.script);
    let of_replicas = scripts.filter(|script| {
        let folder = script.path().split('/').next().unwrap_or_default();
        match folder {
            "dispatcher" => OF_BOTH.contains(&script.name()),
            "tools" => false,
            _ => true,
        }
    });
    of_replicas
        .map(|script| script.metric_label().to_owned())
        .collect()
}

/// Calls every operation with success and with a refusal, and unknown paths without a key.
async fn drive(app: &TestApp, other: &TargetTenant, choose: fn(&Operation) -> bool) {
    for (operation, row) in described() {
        if !choose(operation) {
            continue;
        }
        for who in [
            TestCaller::Owner,
            TestCaller::Admin,
            TestCaller::Garbage,
            TestCaller::Poor,
        ] {
            let victim = TargetTenant::new(app, TenantState::Active).await;
            ask(app, operation, &row, who, &victim, other).await;
        }
        for method in ["PUT", "DELETE", "BREW"] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let path = path_of(operation, other);
            send(app, method, &path, None, None).await;
        }
    }
    for path in [
        "/v1/none",
        "/v1/admin/none",
        "/live",
        "/docs",
        "/v1/openapi.json",
    ] {
        let request = app.request(Method::GET, path);
        request.send().await.expect("a response");
    }
}

#[tokio::test]
async fn a_replica_exposes_few_series_whatever_tenants_send() {
    let app = TestApp::spawn_reaching(public_names(), &[]).await;
    let other = TargetTenant::new(&app, TenantState::Active).await;
    drive(&app, &other, |_| true).await;
    // What is counted in the background is stored once a second.
    eventually("the counts are stored", async || {
        labels(&series(&app), "budget_script_duration_seconds_count").contains("count_traffic")
    })
    .await;
    let first = series(&app);
    assert!(first.len() <= SERIES_MAX, "{} series", first.len());
    let names = first.iter().filter(|name| name.contains(&other.name));
    assert_eq!(names.count(), 0);
    let scripts = labels(&first, "budget_script_duration_seconds_count");
    assert!(scripts.len() > 15, "{scripts:?}");
    assert!(scripts.is_subset(&of_scripts()), "{scripts:?}");
    // Further tenants do not add a series.
    drive(&app, &other, |operation| operation.plane == Plane::Runtime).await;
    let more: Vec<_> = series(&app).difference(&first).cloned().collect();
    assert!(more.is_empty(), "{more:?}");
}

/// All labels at once: those of operations and decisions are there from the start, the others are made here.
#[tokio::test]
async fn all_series_that_a_replica_can_expose_are_few() {
    let app = TestApp::spawn().await;
    app.get("/v1/balances?tenant=acme").await.expect(200);
    let (store, http) = (app.store.metrics(), &app.telemetry.http);
    for label in of_scripts() {
        store.script_duration.with_label_values(&[label.as_str()]);
    }
    for trip in ExtraRoundTrip::WORDS {
        store.extra_round_trips.with_label_values(&[*trip]);
    }
    let document = document_of("monitoring");
    let row = document
        .lines()
        .find(|line| line.contains("`budget_auth_failures_total"))
        .expect("a row");
    let reasons: Vec<_> = row.split('`').skip(1).step_by(2).collect();
    for plane in ["runtime", "admin"] {
        for reason in &reasons {
            http.auth_failures.with_label_values(&[plane, *reason]);
        }
    }
    let settings = document_of("configuration");
    let limits = settings.split("### Limits").nth(1).expect("a section");
    let limits = limits.split("### ").next().expect("its text");
    for row in limits.lines().filter_map(|line| line.strip_prefix("| `")) {
        let setting = row.split('`').next().expect("a name");
        http.limit_refusals.with_label_values(&[setting]);
    }
    for limit in CONSTANT_LIMITS {
        http.limit_refusals.with_label_values(&[limit]);
    }
    let all = series(&app).len();
    // Beside those of evidence, five reasons at most.
    assert!((800..=SERIES_MAX - 5).contains(&all), "{all} series");
}
