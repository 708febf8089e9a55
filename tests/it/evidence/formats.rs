//! Records of a later release, in a format that this one does not know.

use budget_authority::evidence::Endpoint;
use serde_json::{Value, json};

use super::fixture::EvidenceFixture;
use crate::harness::runtime_calls::{ask_body, with};

const SCOPE: &str = "tenant:acme";

#[tokio::test]
async fn e02_a_record_of_a_later_format_has_no_reference_here() {
    let issued = EvidenceFixture::spawn(&[]).await;
    let (app, keys) = (&issued.app, issued.app.store.keys());
    app.budget(SCOPE, 1_000, 0).await;
    let ask = ask_body("k", SCOPE, 5);
    let held = app.post("/v1/reservations", ask.clone()).await.expect(200);
    let id = held.text("/reservation_id").to_owned();
    let path = format!("/v1/reservations/{id}");
    let release = json!({"idempotency_key": "r"});
    let ended = app.post(&format!("{path}/release"), release.clone()).await;
    let ended = ended.expect(200);
    let dry = with(ask_body("dry", SCOPE, 5), json!({"dry_run": true}));
    let outcomes = [
        ("/v1/decide", ask_body("d", SCOPE, 5)),
        ("/v1/reservations", dry),
    ];
    for (path, body) in &outcomes {
        let first = app.post(path, body.clone()).await.expect(200);
        assert!(issued.reference(&first.body).is_some());
    }

    let record = keys.reservation(app.callers[0].partition, &id);
    let mut changed = vec![(record.clone(), "create_inputs"), (record, "end_inputs")];
    for kind in ["decision", "rsv"] {
        let pattern = format!("*{}*:{kind}:*", keys.prefix());
        for key in app.run::<Vec<String>>(&["KEYS", &pattern]).await {
            if app.run::<bool>(&["HEXISTS", &key, "inputs"]).await {
                changed.push((key, "inputs"));
            }
        }
    }
    assert_eq!(changed.len(), 4, "{changed:?}");
    for (key, field) in &changed {
        let inputs: String = app.run(&["HGET", key, field]).await;
        assert!(inputs.starts_with("1 1 "), "{field} {inputs}");
        app.run::<i64>(&["HSET", key, field, &format!("4 1 other {inputs}")])
            .await;
    }

    let without = |mut body: Value| {
        let members = body.as_object_mut().expect("an object");
        assert!(members.remove("evidence").is_some());
        body
    };
    let again = app.post("/v1/reservations", ask).await.expect(200);
    assert_eq!(issued.reference(&again.body), None);
    let again = app
        .post(&format!("{path}/release"), release)
        .await
        .expect(200);
    assert_eq!(again.body, without(ended.body));
    for (path, body) in outcomes {
        let again = app.post(path, body).await.expect(200);
        assert_eq!(issued.reference(&again.body), None);
    }
    let read = app.get(&path).await.expect(200);
    assert_eq!(read.at("/evidence"), &Value::Null);
    let list = app
        .get("/v1/reservations?include=evidence")
        .await
        .expect(200);
    assert_eq!(list.at("/reservations/0/evidence"), &Value::Null);
}

/// An earlier release would attest the denial without the figures, so their entries have a format of their own.
#[tokio::test]
async fn e10_a_denial_is_attested_with_the_figures_of_its_ledger() {
    let mut issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget(SCOPE, 10, 0).await;
    let held = issued.app.post("/v1/reservations", ask_body("h", SCOPE, 6));
    held.await.expect(200);
    let body = ask_body("k", SCOPE, 5);
    let denied = issued.app.post("/v1/reservations", body.clone()).await;
    let denied = denied.refused(409, "BUDGET_EXCEEDED").body;
    for (name, figure) in [
        ("allocated", 10),
        ("spent", 0),
        ("reserved", 6),
        ("remaining", 4),
    ] {
        assert_eq!(denied["details"][name], figure, "{name}");
    }
    assert!(denied["details"]["holds_expire_by"].is_string(), "{denied}");
    let stream = issued
        .app
        .store
        .keys()
        .unsigned(issued.app.callers[0].partition);
    let entries: Vec<(String, Vec<String>)> = issued.app.run(&["XRANGE", &stream, "-", "+"]).await;
    let formats = entries.iter().map(|(_, fields)| {
        let at = fields.iter().position(|name| name == "inputs")?;
        fields[at + 1].split(' ').next()
    });
    assert_eq!(formats.collect::<Vec<_>>(), [None, Some("2")]);
    assert_eq!(issued.sign().await.signed, 2);
    let envelope = issued.check(Endpoint::Reserve, &body, &denied).await;
    let attested = &envelope["payload"]["error"]["response"];
    assert_eq!(attested["details"], denied["details"]);
}

/// A record has a reference only if a verifier would accept its envelope, so that the signer signs it.
#[tokio::test]
async fn a_damaged_record_has_no_reference_to_an_unsigned_envelope() {
    let issued = EvidenceFixture::spawn(&[]).await;
    let app = &issued.app;
    app.budget(SCOPE, 1_000, 0).await;
    let ask = ask_body("k", SCOPE, 5);
    let held = app.post("/v1/reservations", ask.clone()).await.expect(200);
    let id = held.text("/reservation_id").to_owned();
    let record = app.store.keys().reservation(app.callers[0].partition, &id);
    let inputs: String = app.run(&["HGET", &record, "create_inputs"]).await;
    let words: Vec<_> = inputs.split(' ').take(3).collect();
    // No request has such a lifetime.
    let damaged = format!("{} t5", words.join(" "));
    app.run::<i64>(&["HSET", &record, "create_inputs", &damaged])
        .await;
    let again = app.post("/v1/reservations", ask).await.expect(200);
    assert_eq!(again.text("/reservation_id"), id);
    assert_eq!(issued.reference(&again.body), None);
    let read = app.get(&format!("/v1/reservations/{id}")).await.expect(200);
    assert_eq!(read.at("/evidence"), &Value::Null);
}
