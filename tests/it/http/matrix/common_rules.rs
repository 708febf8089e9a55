//! Rules for every operation, tried on each that is described.

use super::*;

/// A request under a good key, with more in its query or its body.
async fn request_with(
    app: &TestApp,
    operation: &Operation,
    row: &Row,
    query: &str,
    member: Option<&str>,
) -> Response {
    let victim = TargetTenant::new(app, TenantState::Active).await;
    let by_admin = !operation.callers.includes_tenants();
    let (known, mut body) = (row.request)(&victim, by_admin);
    if let (Some(member), Some(body)) = (member, body.as_mut()) {
        body[member] = json!(1);
    }
    let who = if by_admin {
        TestCaller::Admin
    } else {
        TestCaller::Owner
    };
    let path = format!("{}?{known}&{query}", path_of(operation, &victim));
    let header = who.header(app, &victim, &victim);
    send(app, operation.method.clone(), &path, header, body).await
}

#[tokio::test]
async fn rule_73_an_unknown_parameter_is_ignored_and_an_unknown_member_is_refused() {
    let app = TestApp::spawn_reaching(public_names(), &[]).await;
    let mut with_body = 0;
    for (operation, row) in &described() {
        let response = request_with(&app, operation, row, "surprise=1&surprise=", None).await;
        let code = response.at("/error").as_str().unwrap_or_default();
        assert_eq!(
            (response.status, code),
            row.good,
            "{}: {response:?}",
            operation.name
        );
        if operation.declaration.request.is_none() {
            continue;
        }
        let response = request_with(&app, operation, row, "", Some("surprise")).await;
        assert_eq!(
            response.error(),
            (400, "INVALID_REQUEST"),
            "{}: {response:?}",
            operation.name
        );
        assert!(
            response.text("/message").contains("surprise"),
            "{}: {response:?}",
            operation.name
        );
        with_body += 1;
    }
    assert!(with_body > 15, "{with_body}");
}

/// That both ids are there, and are those of the body where there is an error, `TestApp::send` checks of every response.
#[tokio::test]
async fn rule_84_every_response_names_its_request_and_its_trace() {
    for dialect in ["service", "cycles"] {
        let app = TestApp::spawn_reaching(public_names(), &["--dialect", dialect]).await;
        let victim = TargetTenant::new(&app, TenantState::Active).await;
        let mut methods: BTreeMap<String, (Vec<Method>, bool)> = BTreeMap::new();
        for (operation, row) in &described() {
            let path = path_of(operation, &victim);
            let entry = methods.entry(path.clone()).or_default();
            entry.0.push(operation.method.clone());
            entry.1 |= operation.plane == Plane::Runtime;
            if operation.name == OperationId::BulkActionTenants.as_str() {
                // A tenant may have that very id.
                entry.0.extend([Method::GET, Method::PATCH]);
            }
            let nobody = send(&app, operation.method.clone(), &path, None, None).await;
            assert_eq!(nobody.status, 401, "{}", operation.name);
            let good = request_with(&app, operation, row, "", None).await;
            assert_eq!(good.status, row.good.0, "{}: {good:?}", operation.name);
        }
        for (path, (known, runtime)) in &methods {
            // Outside the runtime plane, a tenant's key accepts only described operations.
            let who = if *runtime {
                TestCaller::Owner
            } else {
                TestCaller::Admin
            };
            for method in [
                Method::GET,
                Method::POST,
                Method::PUT,
                Method::PATCH,
                Method::DELETE,
            ] {
                if known.contains(&method) {
                    continue;
                }
                let header = who.header(&app, &victim, &victim);
                let response = send(&app, method.clone(), path, header, None).await;
                assert_eq!(
                    response.error(),
                    (405, "INVALID_REQUEST"),
                    "{method} {path}: {response:?}"
                );
                let allowed = response.header("allow").unwrap_or_default();
                assert!(
                    known.iter().all(|known| allowed.contains(known.as_str())),
                    "{path}: {allowed}"
                );
            }
        }
        for path in ["/v1/nothing", "/v1/admin/nothing", "/nothing"] {
            let who = if path.contains("admin") {
                TestCaller::Admin
            } else {
                TestCaller::Owner
            };
            let header = who.header(&app, &victim, &victim);
            let response = send(&app, Method::GET, path, header, None).await;
            assert_eq!(response.error(), (404, "NOT_FOUND"), "{path}: {response:?}");
        }
    }
}

/// Dashboards send the header with everything.
#[tokio::test]
async fn a_content_type_without_a_body_is_accepted_where_no_body_is_expected() {
    let app = TestApp::spawn_reaching(public_names(), &["--dialect", "cycles"]).await;
    for (operation, row) in described()
        .iter()
        .filter(|(operation, _)| operation.declaration.request.is_none())
    {
        for (content, body) in [("none", ""), ("an empty object", "{}")] {
            if operation.method == Method::GET && !body.is_empty() {
                continue;
            }
            let victim = TargetTenant::new(&app, TenantState::Active).await;
            let who = if operation.callers.includes_tenants() {
                TestCaller::Owner
            } else {
                TestCaller::Admin
            };
            let (query, _) = (row.request)(&victim, !operation.callers.includes_tenants());
            let path = format!("{}?{query}", path_of(operation, &victim));
            let (name, key) = who.header(&app, &victim, &victim).expect("a key");
            let request = app
                .request(operation.method.clone(), &path)
                .header(name, key);
            let request = request
                .header("Content-Type", "application/json")
                .body(body);
            let response = app.send(request).await;
            let code = response.at("/error").as_str().unwrap_or_default();
            assert_eq!(
                (response.status, code),
                row.good,
                "{} with {content}: {response:?}",
                operation.name
            );
        }
    }
}

/// Operator operations on a closed or suspended tenant: reads everything, and changes nothing where
/// it is closed; makes nothing new where it is suspended.
#[tokio::test]
async fn the_tenants_status_decides_which_operator_operations_are_allowed() {
    // They change nothing of the tenant, or have an outcome per row.
    let open = [
        OperationId::CreateTenant,
        OperationId::UpdateTenant,
        OperationId::ValidateApiKey,
        OperationId::UpdateWebhookSecurityConfig,
        OperationId::BulkActionTenants,
        OperationId::BulkActionBudgets,
        OperationId::BulkActionWebhooks,
    ]
    .map(OperationId::as_str);
    let new = [
        OperationId::CreateBudget,
        OperationId::CreatePolicy,
        OperationId::CreateApiKey,
    ]
    .map(OperationId::as_str);
    let app = TestApp::spawn_reaching(public_names(), &[]).await;
    for (operation, row) in described()
        .iter()
        .filter(|(operation, _)| includes_admin(operation.callers))
    {
        let id = operation.name;
        for state in [TenantState::Closed, TenantState::Suspended] {
            let expected = match state {
                _ if operation.method == Method::GET || open.contains(&id) => row.good,
                TenantState::Closed => (409, "TENANT_CLOSED"),
                _ if new.contains(&id) => (400, "INVALID_REQUEST"),
                _ => row.good,
            };
            let victim = TargetTenant::new(&app, state).await;
            let before = victim.dump(&app).await;
            let response = ask(&app, operation, row, TestCaller::Admin, &victim, &victim).await;
            let code = response.at("/error").as_str().unwrap_or_default();
            assert_eq!(
                (response.status, code),
                expected,
                "{id}, {state:?}: {response:?}"
            );
            if expected.0 >= 400 {
                assert_eq!(victim.dump(&app).await, before, "{id}, {state:?}");
            }
        }
    }
}
