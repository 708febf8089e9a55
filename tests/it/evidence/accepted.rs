//! Accepted requests fit the format of evidence, at the bounds of every member too.

use budget_authority::evidence::Endpoint;
use serde_json::{Map, Value, json};

use super::fixture::EvidenceFixture;
use crate::harness::admin_calls::policy_body;
use crate::harness::runtime_calls::{tokens, with};

/// The largest integer that the canonical form keeps.
const LARGEST: i64 = (1 << 53) - 1;
/// The largest caps of a policy.
const CAPS_BYTES: usize = 4_096;
const TTL_MS: [i64; 2] = [1_000, 86_400_000];
const GRACE_MS: [i64; 2] = [0, 60_000];
const OVERAGE: [&str; 2] = ["REJECT", "ALLOW_WITH_OVERDRAFT"];

/// Arrays, one within the other.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

/// An object within this many levels: one that makes the body as deep as it may be, or an empty one.
fn free(is_most: bool, outer: usize) -> Value {
    match is_most {
        true => {
            json!({"deep": nested(64 - outer - 1), "long": "\u{1f600}".repeat(3_000), "": null})
        }
        false => json!({}),
    }
}

fn text(is_most: bool, least: usize, most: usize) -> String {
    "\u{20ac}".repeat(if is_most { most } else { least })
}

fn key(is_most: bool, name: char) -> String {
    let length = if is_most { 256 } else { 1 };
    name.to_string().repeat(length)
}

fn subject(is_most: bool) -> Value {
    let mut subject = Map::from_iter([("tenant".to_owned(), json!("acme"))]);
    let dimensions: Map<String, Value> = match is_most {
        true => (0..16)
            .map(|n| (format!("d{n}"), json!(text(true, 0, 256))))
            .collect(),
        false => Map::new(),
    };
    subject.insert("dimensions".to_owned(), dimensions.into());
    if is_most {
        for level in ["workspace", "app", "workflow", "agent", "toolset"] {
            subject.insert(level.to_owned(), json!("x".repeat(128)));
        }
    }
    subject.into()
}

fn ask(is_most: bool, name: char) -> Value {
    let tags = if is_most { 10 } else { 0 };
    let action = json!({
        "kind": text(is_most, 1, 64),
        "name": text(is_most, 1, 256),
        "tags": vec![text(is_most, 0, 64); tags],
    });
    json!({
        "idempotency_key": key(is_most, name),
        "subject": subject(is_most),
        "action": action,
        "estimate": tokens(if is_most { LARGEST } else { 0 }),
        "metadata": free(is_most, 1),
    })
}

fn reserve(is_most: bool, name: char, dry_run: bool) -> Value {
    let most = usize::from(is_most);
    let more = json!({
        "ttl_ms": TTL_MS[most],
        "grace_period_ms": GRACE_MS[most],
        "overage_policy": OVERAGE[most],
        "dry_run": dry_run,
    });
    with(ask(is_most, name), more)
}

fn commit(is_most: bool) -> Value {
    let amount = if is_most { LARGEST } else { 0 };
    let metrics = json!({
        "tokens_input": amount,
        "tokens_output": amount,
        "latency_ms": amount,
        "model_version": text(is_most, 0, 128),
        "custom": free(is_most, 2),
    });
    json!({
        "idempotency_key": key(is_most, 'c'),
        "actual": tokens(amount),
        "metrics": metrics,
        "metadata": free(is_most, 1),
    })
}

fn release(is_most: bool) -> Value {
    json!({"idempotency_key": key(is_most, 'r'), "reason": text(is_most, 0, 256)})
}

/// Caps with every member, of this many bytes of JSON text.
fn caps(bytes: usize) -> Value {
    let caps = |filling: usize| {
        json!({
            "max_tokens": LARGEST,
            "max_steps_remaining": LARGEST,
            "tool_allowlist": [text(true, 0, 256), text(true, 0, 256), "\n", ""],
            "tool_denylist": [text(true, 0, 256), text(true, 0, 256), "x".repeat(filling / 4), "y".repeat(filling / 4),
                "z".repeat(filling / 4), "w".repeat(filling - filling / 4 * 3)],
            "cooldown_ms": LARGEST,
        })
    };
    let least = caps(0).to_string().len();
    caps(bytes - least)
}

/// Gives the tenant the largest caps that are accepted; they come with whatever is allowed below it.
async fn with_caps(issued: &EvidenceFixture) {
    let create = async |bytes: usize| {
        let caps = caps(bytes);
        let body = policy_body("acme", "caps", "tenant:acme/*", json!({ "caps": caps }));
        issued.app.post_as_admin("/v1/admin/policies", body).await
    };
    create(CAPS_BYTES + 1).await.refused(400, "INVALID_REQUEST");
    create(CAPS_BYTES).await.expect(201);
}

#[tokio::test]
async fn e09_an_accepted_request_at_all_bounds_is_attested() {
    let mut issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget("tenant:acme", LARGEST, 0).await;
    let mut seen = Vec::new();
    for is_most in [false, true] {
        if is_most {
            with_caps(&issued).await;
        }
        let create = "/v1/reservations";
        let dry = reserve(is_most, 'y', true);
        for (endpoint, path, body) in [
            (Endpoint::Decide, "/v1/decide", ask(is_most, 'd')),
            (Endpoint::Reserve, create, dry),
        ] {
            let got = issued.app.post(path, body.clone()).await.expect(200);
            seen.push((endpoint, body, got.body));
        }
        // The hold takes all there is, so the first one is returned.
        for (name, endpoint, what, end) in [
            ('h', Endpoint::Release, "release", release(is_most)),
            ('k', Endpoint::Commit, "commit", commit(is_most)),
        ] {
            let body = reserve(is_most, name, false);
            let held = issued.app.post(create, body.clone()).await.expect(200);
            let path = format!("{create}/{}/{what}", held.text("/reservation_id"));
            seen.push((Endpoint::Reserve, body, held.body));
            let ended = issued.app.post(&path, end.clone()).await.expect(200);
            seen.push((endpoint, end, ended.body));
        }
    }
    let pass = issued.sign().await;
    assert_eq!((pass.signed, pass.quarantined), (seen.len(), 0));
    let mut with_caps = 0;
    for (endpoint, sent, got) in &seen {
        let envelope = issued.check(*endpoint, sent, got).await;
        let artifact = envelope["artifact_type"].as_str().expect("a word");
        let attested = &envelope["payload"][artifact]["response"]["caps"];
        with_caps += usize::from(*attested == caps(CAPS_BYTES));
    }
    // The widest decision, dry run and creates.
    assert_eq!(with_caps, 4);
}

#[tokio::test]
async fn e09_a_refusal_at_all_bounds_is_attested() {
    let mut issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget("tenant:acme", LARGEST - 1, 0).await;
    let body = reserve(true, 'k', false);
    let refused = issued.app.post("/v1/reservations", body.clone()).await;
    let refused = refused.refused(409, "BUDGET_EXCEEDED");
    let got = refused.body.clone();
    assert_eq!(issued.sign().await.signed, 1);
    issued.check(Endpoint::Reserve, &body, &got).await;
}
