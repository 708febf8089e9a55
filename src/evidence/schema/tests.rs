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
fn an_envelope_has_exactly_the_members_of_the_client() {
    let body = json(
        r#"{"idempotency_key":"k","actual":{"unit":"TOKENS","amount":1},"metrics":{"latency_ms":null,"custom":{"a":null}},
            "metadata":{"b":[null,{"c":null}]},"unknown":1}"#,
    );
    assert_eq!(
        kept(request_of(Endpoint::Commit), &body).canonical(),
        r#"{"actual":{"amount":1,"unit":"TOKENS"},"idempotency_key":"k","metadata":{"b":[null,{"c":null}]},"metrics":{"custom":{"a":null}}}"#
    );
}

/// The names that the document gives to objects, in its order.
fn named() -> Vec<(&'static str, &'static Mirror)> {
    let request = |endpoint| request_of(endpoint);
    let response = |artifact: &'static Mirror| match artifact.kind_of("response") {
        Some(Kind::Object(response)) => *response,
        _ => panic!("a response"),
    };
    let mut named = vec![
        ("decide", &mirrors::DECIDE),
        ("reserve", &mirrors::RESERVE),
        ("commit", &mirrors::COMMIT),
        ("release", &mirrors::RELEASE),
        ("error", &mirrors::ERROR),
        ("decide request", request(Endpoint::Decide)),
        ("reserve request", request(Endpoint::Reserve)),
        ("commit request", request(Endpoint::Commit)),
        ("release request", request(Endpoint::Release)),
        ("decide response", response(&mirrors::DECIDE)),
        ("reserve response", response(&mirrors::RESERVE)),
        ("commit response", response(&mirrors::COMMIT)),
        ("release response", response(&mirrors::RELEASE)),
        ("error response", response(&mirrors::ERROR)),
    ];
    let inner = |of: &str, member: &str| {
        let mirror = named.iter().find(|(name, _)| *name == of).expect(of).1;
        match mirror.kind_of(member) {
            Some(Kind::Object(inner) | Kind::List(_, Kind::Object(inner))) => *inner,
            _ => panic!("an object: {member}"),
        }
    };
    let balance = inner("reserve response", "balances");
    let Some(Kind::Object(signed)) = balance.kind_of("remaining") else {
        panic!("an amount")
    };
    let more = [
        ("subject", inner("decide request", "subject")),
        ("action", inner("decide request", "action")),
        ("amount", inner("decide request", "estimate")),
        ("signed amount", *signed),
        ("balance", balance),
        ("caps", inner("decide response", "caps")),
        ("metrics", inner("commit request", "metrics")),
    ];
    named.extend(more);
    named
}

fn described(kind: &Kind, names: &[(&'static str, &'static Mirror)]) -> String {
    let name_of = |mirror: &'static Mirror| {
        let mut names = names.iter();
        names
            .find(|(_, one)| std::ptr::eq(*one, mirror))
            .expect("a name")
            .0
    };
    let any = usize::MAX;
    match kind {
        Kind::Text(0, most) if *most == any => "text".to_owned(),
        Kind::Text(least, most) if *most == any => format!("text {least}.."),
        Kind::Text(0, most) => format!("text ..{most}"),
        Kind::Text(least, most) => format!("text {least}..{most}"),
        Kind::Hex(digits) => format!("hex {digits}"),
        Kind::Word(words) if words.len() < 5 => words
            .iter()
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(" or "),
        Kind::Word(_) => "error code".to_owned(),
        Kind::Integer(i64::MIN, i64::MAX) => "integer".to_owned(),
        Kind::Integer(least, i64::MAX) => format!("integer {least}.."),
        Kind::Integer(least, most) => format!("integer {least}..{most}"),
        Kind::Flag => "boolean".to_owned(),
        Kind::Free => "free object".to_owned(),
        Kind::List(most, each) if *most == any => format!("array of {}", described(each, names)),
        Kind::List(most, each) => format!("array ..{most} of {}", described(each, names)),
        Kind::Map(most, each) => format!("object ..{most} of {}", described(each, names)),
        Kind::Object(mirror) => name_of(mirror).to_owned(),
    }
}

/// Members of one kind that follow each other share its description.
fn cell(mirror: &Mirror, is_optional: bool, names: &[(&'static str, &'static Mirror)]) -> String {
    let members = mirror.members.iter();
    let members = members.filter(|(name, _)| name.ends_with('?') == is_optional);
    let described: Vec<_> = members
        .map(|(name, kind)| (name.trim_end_matches('?'), described(kind, names)))
        .collect();
    let groups = described.chunk_by(|(_, one), (_, next)| one == next);
    let group = |group: &[(&str, String)]| {
        let members: Vec<_> = group.iter().map(|(name, _)| format!("`{name}`")).collect();
        format!("{}: {}", members.join(", "), group[0].1)
    };
    groups.map(group).collect::<Vec<_>>().join("; ")
}

/// The document is enough to write a verifier.
#[test]
fn the_document_has_every_member_with_its_bounds() {
    let names = named();
    let rows = names.iter().map(|(name, mirror)| {
        let (required, optional) = (cell(mirror, false, &names), cell(mirror, true, &names));
        format!("| {name} | {required} | {optional} |")
    });
    let document = include_str!("../../../docs/evidence-format.md");
    let missing: Vec<_> = rows.filter(|row| !document.contains(row)).collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    let Kind::Word(codes) = mirrors::ERROR_CODES else {
        panic!("words")
    };
    let codes: Vec<_> = codes.iter().map(|code| format!("`{code}`")).collect();
    assert!(document.replace('\n', " ").contains(&codes.join(", ")));
    for endpoint in Endpoint::ALL {
        assert!(document.contains(&format!("| `{}` |", endpoint.as_str())));
    }
    assert!(document.contains(&format!(
        "nest at most {} levels",
        crate::evidence::envelope::DEPTH_MAX
    )));
}
