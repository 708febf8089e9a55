//! Texts of a client stay values: never names, lines or commands.

use serde_json::json;

use super::Target;

/// All facts of all events of acme, names and values as Redis has them.
async fn facts(target: &Target) -> Vec<Vec<(String, String)>> {
    let (fixture, caller) = (&target.app, &target.app.callers[0]);
    let keys = fixture.store.keys();
    let log = |day| keys.events(caller.partition, caller.tenant.as_str(), day);
    let entries = fixture.log_entries(log).await.into_iter();
    let pairs = |fields: Vec<String>| {
        let pairs = fields.chunks_exact(2);
        pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect()
    };
    entries.map(|(_, fields)| pairs(fields)).collect()
}

#[tokio::test]
async fn a_kind_with_line_breaks_cannot_forge_facts() {
    let target = Target::new().await;
    let forged = "x\nactor admin\nkey_id key_000_forged\ntrace_id forged";
    let subject = json!({"tenant": "acme"});
    let action = json!({"kind": forged, "name": forged});
    let tokens = |amount: i64| json!({"unit": "TOKENS", "amount": amount});
    let app = &target.app;
    let create = json!({"idempotency_key": "c", "subject": subject, "action": action,
        "estimate": tokens(10)});
    let created = app.post("/v1/reservations", create).await;
    let id = created.text("/reservation_id");
    let commit = json!({"idempotency_key": "c", "actual": tokens(2_000_000)});
    app.post(&format!("/v1/reservations/{id}/commit"), commit)
        .await
        .expect(200);
    let event = json!({"idempotency_key": "e", "subject": subject, "action": action,
        "actual": tokens(2_000_000)});
    app.post("/v1/events", event).await.expect(201);
    let denied = json!({"idempotency_key": "d", "subject": subject, "action": action,
        "estimate": tokens(10)});
    app.post("/v1/decide", denied).await.expect(200);
    let events = facts(&target).await;
    assert!(events.len() > 2, "{events:?}");
    for facts in &events {
        for name in ["actor", "key_id", "trace_id", "request_id", "kind", "type"] {
            let count = facts.iter().filter(|(known, _)| known == name).count();
            assert!(count <= 1, "{count} times {name}: {facts:?}");
        }
        let actor = facts.iter().find(|(name, _)| name == "actor");
        assert_eq!(actor.map(|(_, value)| value.as_str()), Some("api_key"));
    }
}

#[tokio::test]
async fn client_chosen_names_are_returned_unchanged() {
    let target = Target::new().await;
    for (number, odd) in [
        "\0",
        "\r\n",
        "\u{1b}[31m",
        "\u{202e}",
        "a\"b\\c",
        "{\"x\":1}",
        "</script>",
        "${x}",
        "\u{10ffff}",
        "é",
        "e\u{301}",
        "\u{feff}",
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({"idempotency_key": format!("{odd}{number}"),
            "subject": {"tenant": "acme", "dimensions": {odd: odd}},
            "action": {"kind": format!("k{odd}"), "name": format!("n{odd}"), "tags": [odd]},
            "estimate": {"unit": "TOKENS", "amount": 1}, "metadata": {odd: [odd]}});
        let created = target
            .app
            .post("/v1/reservations", body.clone())
            .await
            .expect(200);
        let id = created.text("/reservation_id");
        let found = target.app.get(&format!("/v1/reservations/{id}")).await;
        for member in ["idempotency_key", "subject", "action", "metadata"] {
            assert_eq!(found.body[member], body[member], "{odd:?}");
        }
    }
}
