//! Every operation that takes an idempotency key says of a repeated request that its response is the stored one.

use super::*;

async fn check_replays(settings: &[&str]) {
    let app = TestApp::spawn_reaching(public_names(), settings).await;
    let repeatable = |(operation, row): &(&Operation, Row)| {
        // A refusal is not stored.
        operation.declaration.idempotent && row.good.0 < 400
    };
    let described: Vec<_> = described().into_iter().filter(repeatable).collect();
    assert!(described.len() > 20, "{}", described.len());
    for (operation, row) in &described {
        let victim = TargetTenant::new(&app, TenantState::Active).await;
        let as_admin = !operation.callers.includes_tenants();
        let (query, body) = (row.request)(&victim, as_admin);
        let path = format!("{}?{query}", path_of(operation, &victim));
        let header = match as_admin {
            true => ("X-Admin-API-Key", ADMIN_KEY),
            false => (app.names.key, victim.owner.as_str()),
        };
        let member = body
            .as_ref()
            .and_then(|body| body["idempotency_key"].as_str());
        let key = member.unwrap_or("repeated").to_owned();
        for is_replay in [None, Some("true"), Some("true")] {
            let mut request = app.request(operation.method.clone(), &path);
            request = request
                .header(header.0, header.1)
                .header("X-Idempotency-Key", &key);
            if let Some(body) = &body {
                request = request.json(body);
            }
            let response = app.send(request).await;
            let name = operation.name;
            assert_eq!(response.status, row.good.0, "{name}: {response:?}");
            assert_eq!(response.header("idempotency-replayed"), is_replay, "{name}");
        }
    }
}

#[tokio::test]
async fn a_replayed_response_says_so_in_the_service_dialect() {
    check_replays(&[]).await;
}

#[tokio::test]
async fn a_replayed_response_says_so_in_the_cycles_dialect() {
    check_replays(&["--dialect", "cycles"]).await;
}
