use super::*;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).expect("JSON")
}

fn fits(artifact: Artifact, payload: &str) -> Result<(), String> {
    check_payload(artifact, &json(payload)).map_err(|misfit| misfit.to_string())
}

const REQUEST: &str = r#"{"idempotency_key":"k","subject":{"tenant":"a"},"action":{"kind":"k","name":"n"},"estimate":{"unit":"TOKENS","amount":1}}"#;

fn reserve(request: &str, response: &str) -> Result<(), String> {
    fits(
        Artifact::Reserve,
        &format!(r#"{{"reserve":{{"request":{request},"response":{response}}}}}"#),
    )
}

#[test]
fn a_dry_run_makes_no_reservation_and_only_a_dry_run_is_denied() {
    let dry = REQUEST.replace(r#""estimate""#, r#""dry_run":true,"estimate""#);
    let response = |decision: &str, more: &str| {
        format!(r#"{{"decision":"{decision}","affected_scopes":[]{more}}}"#)
    };
    let live = response("ALLOW", r#","reservation_id":"r","expires_at_ms":5"#);
    assert_eq!(reserve(REQUEST, &live), Ok(()));
    assert_eq!(
        reserve(
            &dry,
            &response("DENY", r#","reason_code":"BUDGET_EXCEEDED""#)
        ),
        Ok(())
    );
    assert_eq!(reserve(&dry, &response("ALLOW", "")), Ok(()));
    for (request, response) in [
        (dry.as_str(), live.as_str()),
        (&dry, &response("ALLOW", r#","expires_at_ms":5"#)),
        (REQUEST, &response("DENY", "")),
        (REQUEST, &response("ALLOW", "")),
        (
            REQUEST,
            &response("ALLOW_WITH_CAPS", r#","reservation_id":"r""#),
        ),
        (
            REQUEST,
            &response("ALLOW", r#","reservation_id":"r","caps":{}"#),
        ),
        (REQUEST, &response("MAYBE", r#","reservation_id":"r""#)),
    ] {
        assert!(reserve(request, response).is_err(), "{request} {response}");
    }
}

#[test]
fn e31_every_object_is_closed_and_bounded() {
    let response = r#"{"decision":"ALLOW","affected_scopes":["s"],"reservation_id":"r","balances":[{"scope":"s","scope_path":"p",
        "remaining":{"unit":"TOKENS","amount":-1},"is_over_limit":true}]}"#;
    assert_eq!(reserve(REQUEST, response), Ok(()));
    for (from, to, path) in [
        (
            r#""kind":"k""#,
            r#""kind":"k","policy_keys":{}"#,
            "request.action.policy_keys",
        ),
        (
            r#""tenant":"a""#,
            r#""tenant":null"#,
            "request.subject.tenant",
        ),
        (r#""tenant":"a""#, "", "request.subject"),
        (
            r#""tenant":"a""#,
            r#""tenant":"a","dimensions":{"a":1}"#,
            "request.subject.dimensions.a",
        ),
        (
            r#""amount":1}"#,
            r#""amount":-1}"#,
            "request.estimate.amount",
        ),
        (
            r#""amount":1}"#,
            r#""amount":1.5}"#,
            "request.estimate.amount",
        ),
        (
            r#""TOKENS","amount":1"#,
            r#""tokens","amount":1"#,
            "request.estimate.unit",
        ),
        (
            r#""idempotency_key":"k""#,
            r#""idempotency_key":"""#,
            "request.idempotency_key",
        ),
        (
            r#""idempotency_key":"k""#,
            r#""idempotency_key":"k","ttl_ms":999"#,
            "request.ttl_ms",
        ),
        (
            r#""idempotency_key":"k""#,
            r#""idempotency_key":"k","metadata":[]"#,
            "request.metadata",
        ),
        (
            r#""name":"n""#,
            r#""name":"n","tags":["a",1]"#,
            "request.action.tags[1]",
        ),
        (r#""scope":"s","#, "", "response.balances[0].scope"),
        (r#"["s"]"#, r#""s""#, "response.affected_scopes"),
        (
            r#""is_over_limit":true"#,
            r#""is_over_limit":1"#,
            "response.balances[0].is_over_limit",
        ),
        (
            r#""reservation_id":"r""#,
            r#""reservation_id":"r","remaining_ttl_ms":1"#,
            "response.remaining_ttl_ms",
        ),
    ] {
        let (request, response) = (
            REQUEST.replacen(from, to, 1),
            response.replacen(from, to, 1),
        );
        let misfit = reserve(&request, &response).expect_err(to);
        assert!(
            misfit.starts_with(&format!("`payload.reserve.{path}` ")),
            "{misfit}"
        );
    }
}

#[test]
fn an_error_names_a_reservation_where_its_endpoint_does() {
    let error = |endpoint: &str, more: &str| {
        let response = r#"{"error":"BUDGET_EXCEEDED","message":"m","request_id":"r"}"#;
        let error = format!(
            r#"{{"error":{{"endpoint":"{endpoint}","http_status":409,"response":{response}{more}}}}}"#
        );
        fits(Artifact::Error, &error)
    };
    for endpoint in Endpoint::ALL.iter().copied() {
        let with = error(endpoint.as_str(), r#","reservation_id":"r""#);
        let without = error(endpoint.as_str(), "");
        assert_eq!(with.is_ok(), endpoint.names_reservation());
        assert_eq!(without.is_ok(), !endpoint.names_reservation());
    }
    let release = r#","reservation_id":"r","request":{"idempotency_key":"k","reason":"x"}"#;
    assert_eq!(error(Endpoint::Release.as_str(), release), Ok(()));
    assert!(error(Endpoint::Commit.as_str(), release).is_err());
    assert!(error("POST /v1/reservations/r/commit", release).is_err());
    assert!(error("POST /v1/events", "").is_err());
}

#[test]
fn what_a_client_sent_is_kept_and_nothing_else() {
    let body = json(
        r#"{"idempotency_key":"k","actual":{"unit":"TOKENS","amount":1},"metrics":{"latency_ms":null,"custom":{"a":null}},
            "metadata":{"b":[null,{"c":null}]},"unknown":1}"#,
    );
    assert_eq!(
        kept(request_of(Endpoint::Commit), &body).canonical(),
        r#"{"actual":{"amount":1,"unit":"TOKENS"},"idempotency_key":"k","metadata":{"b":[null,{"c":null}]},"metrics":{"custom":{"a":null}}}"#
    );
}
