//! Every operation under every kind of key: who is accepted, how others are refused, and that nothing changes where it is
//! refused. The operations and their callers come from the index, so that what is declared is what holds.

mod callers;
mod closing;
mod common_rules;
mod replays;
mod rows;
mod series;
mod target_tenant;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use budget_authority::api::dialect::Dialect;
use budget_authority::api::openapi::document;
use budget_authority::api::operation::{Callers, Operation, Plane};
use budget_authority::api::operations::OperationId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::receiver::public_names;
use crate::harness::response::Response;
use rows::{Outcome, Row, row};
use target_tenant::{TargetTenant, TenantState};

/// Every operation that takes a key, with its row.
fn described() -> Vec<(&'static Operation, Row)> {
    let with_row = |id: &OperationId| Some((id.operation(), row(*id)?));
    OperationId::ALL.iter().filter_map(with_row).collect()
}

/// The caller.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TestCaller {
    Nobody,
    Garbage,
    WrongSecret,
    GarbageAdmin,
    Revoked,
    Expired,
    Poor,
    Other,
    /// Restricted to one segment that no scope of the tenant has.
    Narrow,
    /// Restricted to a path that nothing of the victim's lies in.
    Outside,
    /// Restricted to a path that contains everything of the tenant.
    Within,
    Suspended,
    Closed,
    Owner,
    Admin,
}

const EVERYBODY: [TestCaller; 15] = [
    TestCaller::Nobody,
    TestCaller::Garbage,
    TestCaller::WrongSecret,
    TestCaller::GarbageAdmin,
    TestCaller::Revoked,
    TestCaller::Expired,
    TestCaller::Poor,
    TestCaller::Other,
    TestCaller::Narrow,
    TestCaller::Outside,
    TestCaller::Within,
    TestCaller::Suspended,
    TestCaller::Closed,
    TestCaller::Owner,
    TestCaller::Admin,
];

/// Whether the admin key may open an operation.
fn includes_admin(callers: Callers) -> bool {
    matches!(callers, Callers::Admin | Callers::Both(_))
}

impl TestCaller {
    /// The expected status and code.
    fn expected(self, operation: &Operation, row: &Row) -> Outcome {
        let unauthorized = (401, "UNAUTHORIZED");
        let tenants = row
            .tenants
            .as_ref()
            .filter(|_| operation.callers.includes_tenants());
        match (self, tenants) {
            (Self::Admin, _) if includes_admin(operation.callers) => row.good,
            (Self::Nobody | Self::Garbage | Self::WrongSecret | Self::GarbageAdmin, _)
            | (Self::Revoked | Self::Expired | Self::Admin, _)
            | (_, None) => unauthorized,
            (Self::Poor, _) if operation.callers.permission().is_empty() => row.good,
            (Self::Poor, _) if (operation.plane == Plane::Runtime) => (403, "FORBIDDEN"),
            (Self::Poor, _) => (403, "INSUFFICIENT_PERMISSIONS"),
            (Self::Owner | Self::Within, _) => row.good,
            (Self::Other, Some(tenants)) => tenants.other,
            (Self::Narrow | Self::Outside, Some(tenants)) => tenants.narrow,
            (Self::Suspended, Some(tenants)) => tenants.suspended,
            (Self::Closed, Some(tenants)) => tenants.closed,
        }
    }

    fn state(self) -> TenantState {
        match self {
            Self::Suspended => TenantState::Suspended,
            Self::Closed => TenantState::Closed,
            _ => TenantState::Active,
        }
    }

    /// The key header of the caller.
    fn header(
        self,
        app: &TestApp,
        target: &TargetTenant,
        other: &TargetTenant,
    ) -> Option<(&'static str, String)> {
        let key = match self {
            Self::Nobody => return None,
            Self::Admin => return Some(("X-Admin-API-Key", ADMIN_KEY.to_owned())),
            Self::GarbageAdmin => return Some(("X-Admin-API-Key", "garbage".to_owned())),
            Self::Garbage => "garbage".to_owned(),
            Self::WrongSecret => format!("{}AAAA", &target.owner[..target.owner.len() - 4]),
            Self::Revoked => target.revoked.clone(),
            Self::Expired => target.expired.clone(),
            Self::Poor => target.poor.clone(),
            Self::Other => other.owner.clone(),
            Self::Narrow => target.narrow.clone(),
            Self::Outside => target.outside.clone(),
            Self::Within => target.within.clone(),
            Self::Suspended | Self::Closed | Self::Owner => target.owner.clone(),
        };
        Some((app.names.key, key))
    }
}

/// The path of an operation on what is the victim's.
fn path_of(operation: &Operation, target: &TargetTenant) -> String {
    // Usage events and events have ids of the same name.
    let mut path =
        (operation.path).replace("usage-events/{event_id}", "usage-events/{usage_event_id}");
    for (name, id) in &target.ids {
        path = path.replace(&format!("{{{name}}}"), id);
    }
    assert!(
        !path.contains('{'),
        "{path}: the victim has nothing of that name"
    );
    path
}

async fn send(
    app: &TestApp,
    method: Method,
    path: &str,
    header: Option<(&str, String)>,
    body: Option<Value>,
) -> Response {
    let mut request = app.request(method, path);
    if let Some((name, key)) = header {
        request = request.header(name, key);
    }
    if let Some(body) = body {
        request = request.json(&body);
    }
    app.send(request).await
}

/// Sends the request of a row about a tenant.
async fn ask(
    app: &TestApp,
    operation: &Operation,
    row: &Row,
    who: TestCaller,
    target: &TargetTenant,
    other: &TargetTenant,
) -> Response {
    let (query, body) = (row.request)(target, who == TestCaller::Admin);
    let path = format!("{}?{query}", path_of(operation, target));
    send(
        app,
        operation.method.clone(),
        &path,
        who.header(app, target, other),
        body,
    )
    .await
}

/// Checks a row under every kind of key.
async fn check(app: &TestApp, operation: &Operation, row: &Row, other: &TargetTenant) {
    let mut victims = Vec::new();
    for who in EVERYBODY {
        let expected = who.expected(operation, row);
        let refused = expected.0 >= 400;
        // A refusal changes nothing, so the next caller can use the same target.
        let known = victims.iter().position(|(state, _)| *state == who.state());
        let target = match known {
            Some(known) if refused => victims.swap_remove(known).1,
            _ => TargetTenant::new(app, who.state()).await,
        };
        let before = target.dump(app).await;
        let response = ask(app, operation, row, who, &target, other).await;
        let code = response.at("/error").as_str().unwrap_or_default();
        assert_eq!(
            (response.status, code),
            expected,
            "{} by {who:?}: {response:?}",
            operation.name
        );
        if refused || operation.method == Method::GET || who == TestCaller::Other {
            let after = target.dump(app).await;
            let changed: BTreeSet<_> = before
                .iter()
                .chain(&after)
                .filter(|(name, _)| before.get(*name) != after.get(*name))
                .map(|(name, _)| name)
                .collect();
            assert!(
                changed.is_empty(),
                "{} by {who:?} changed {changed:?}",
                operation.name
            );
            victims.push((who.state(), target));
        } else {
            continue;
        }
        let target = &victims.last().expect("just put there").1;
        let body = response.body.to_string();
        // Names from the request itself prove nothing.
        let (_, sent) = (row.request)(target, false);
        let named = sent.as_ref().and_then(|body| body["scope_filter"].as_str());
        let body = named.map_or(body.clone(), |named| body.replace(named, ""));
        // A refused caller learns nothing that was not in the request.
        if who == TestCaller::Other && !refused {
            assert!(
                !body.contains(&target.name),
                "{} reveals to {who:?}: {body}",
                operation.name
            );
        }
        // A restricted key sees nothing outside its scopes or without a scope.
        if matches!(who, TestCaller::Narrow | TestCaller::Outside) && !refused {
            for mark in target.marks() {
                assert!(
                    !body.contains(&mark),
                    "{} shows {who:?} {mark}: {body}",
                    operation.name
                );
            }
        }
        if expected.0 == 401 {
            assert!(
                !body.contains(&target.name),
                "{} reveals to {who:?}: {body}",
                operation.name
            );
            assert!(response.header(app.names.tenant).is_none(), "{response:?}");
        }
    }
}

/// The description has every operation of the index once, and shows who may call it.
#[test]
fn every_operation_is_described_with_its_callers() {
    let document = document(Dialect::Service);
    for operation in OperationId::ALL.iter().map(|id| id.operation()) {
        let method = operation.method.as_str().to_lowercase();
        let path = operation.path_in(Dialect::Service);
        let described = &document["paths"][&*path][method];
        assert_eq!(described["operationId"], operation.name);
        let security = described["security"].to_string();
        let callers = operation.callers;
        assert_eq!(security.contains("ApiKeyAuth"), callers.includes_tenants());
        assert_eq!(security.contains("AdminKeyAuth"), includes_admin(callers));
        let has_body = operation.declaration.request.is_some();
        assert_eq!(described["requestBody"].is_object(), has_body);
    }
    let methods = document["paths"].as_object().expect("paths").values();
    let described: usize = methods
        .map(|methods| methods.as_object().expect("methods").len())
        .sum();
    let ids: BTreeSet<_> = OperationId::ALL.iter().map(|id| id.as_str()).collect();
    assert_eq!(ids.len(), OperationId::ALL.len());
    assert_eq!(described, OperationId::ALL.len());
}

/// A path that is served past the index would have no row.
#[test]
fn every_path_that_is_served_is_in_the_index() {
    // Operations without a key.
    let public = [
        "/",
        "/v1/openapi.json",
        "/docs",
        "/live",
        "/ready",
        "/metrics",
    ];
    let mut folders = vec![PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/api"
    ))];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a file");
            let routes = text.split(".route(").skip(1);
            for route in routes.filter_map(|route| route.trim_start().strip_prefix('"')) {
                let served = route.split('"').next().unwrap_or_default();
                let is_public = public.contains(&served) || served.starts_with("/actuator/");
                assert!(is_public, "{}: {served}", path.display());
            }
        }
    }
}

async fn check_those(choose: fn(&Operation) -> bool) {
    let app = TestApp::spawn_reaching(public_names(), &[]).await;
    let other = TargetTenant::new(&app, TenantState::Active).await;
    for (operation, row) in described()
        .iter()
        .filter(|(operation, _)| choose(operation))
    {
        check(&app, operation, row, &other).await;
    }
}

#[tokio::test]
async fn on_the_runtime_plane_each_key_gets_the_documented_response() {
    check_those(|operation| operation.plane == Plane::Runtime).await;
}

#[tokio::test]
async fn on_a_tenants_own_resources_each_key_gets_the_documented_response() {
    check_those(|operation| {
        operation.plane == Plane::Admin && operation.callers.includes_tenants()
    })
    .await;
}

#[tokio::test]
async fn no_tenants_key_may_call_operator_operations() {
    check_those(|operation| !operation.callers.includes_tenants()).await;
}
