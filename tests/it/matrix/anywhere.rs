//! What holds for every operation alike, so that it is tried on each that is described.

use super::*;

/// A request under a good key, with more in its query or its body.
async fn asked_with(
    app: &TestApp,
    operation: &Operation,
    row: &Row,
    query: &str,
    member: Option<&str>,
) -> Said {
    let victim = Victim::new(app, Fate::Active).await;
    let by_admin = !operation.by_tenants;
    let (known, mut body) = (row.request)(&victim, by_admin);
    if let (Some(member), Some(body)) = (member, body.as_mut()) {
        body[member] = json!(1);
    }
    let who = if by_admin { Who::Admin } else { Who::Owner };
    let path = format!("{}?{known}&{query}", path_of(operation, &victim));
    let header = who.header(app, &victim, &victim);
    send(app, operation.method.clone(), &path, header, body).await
}

#[tokio::test]
async fn rule_73_an_unknown_parameter_is_ignored_and_an_unknown_member_is_refused() {
    let app = TestApp::spawn_reaching(public_names(), &[]).await;
    let mut with_body = 0;
    for (operation, row) in &described() {
        let said = asked_with(&app, operation, row, "surprise=1&surprise=", None).await;
        let code = said.at("/error").as_str().unwrap_or_default();
        assert_eq!(
            (said.status.as_u16(), code),
            row.good,
            "{}: {said:?}",
            operation.id
        );
        if !operation.has_body {
            continue;
        }
        let said = asked_with(&app, operation, row, "", Some("surprise")).await;
        assert_eq!(
            said.error(),
            (400, "INVALID_REQUEST"),
            "{}: {said:?}",
            operation.id
        );
        assert!(
            said.text("/message").contains("surprise"),
            "{}: {said:?}",
            operation.id
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
        let victim = Victim::new(&app, Fate::Active).await;
        let mut methods: BTreeMap<String, (Vec<Method>, bool)> = BTreeMap::new();
        for (operation, row) in &described() {
            let path = path_of(operation, &victim);
            let entry = methods.entry(path.clone()).or_default();
            entry.0.push(operation.method.clone());
            entry.1 |= operation.runtime;
            let nobody = send(&app, operation.method.clone(), &path, None, None).await;
            assert_eq!(nobody.status, 401, "{}", operation.id);
            let good = asked_with(&app, operation, row, "", None).await;
            assert_eq!(good.status, row.good.0, "{}: {good:?}", operation.id);
        }
        for (path, (known, runtime)) in &methods {
            // Elsewhere than on the runtime plane a tenant's key opens nothing that is not described.
            let who = if *runtime { Who::Owner } else { Who::Admin };
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
                let said = send(&app, method.clone(), path, header, None).await;
                assert_eq!(
                    said.error(),
                    (405, "INVALID_REQUEST"),
                    "{method} {path}: {said:?}"
                );
                let allowed = said.header("allow").unwrap_or_default();
                assert!(
                    known.iter().all(|known| allowed.contains(known.as_str())),
                    "{path}: {allowed}"
                );
            }
        }
        for path in ["/v1/nothing", "/v1/admin/nothing", "/nothing"] {
            let who = if path.contains("admin") {
                Who::Admin
            } else {
                Who::Owner
            };
            let header = who.header(&app, &victim, &victim);
            let said = send(&app, Method::GET, path, header, None).await;
            assert_eq!(said.error(), (404, "NOT_FOUND"), "{path}: {said:?}");
        }
    }
}
