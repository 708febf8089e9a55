//! Random histories: whatever a client sends and gets, the envelope attests exactly that.

use budget_authority::evidence::Endpoint;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

use super::fixture::EvidenceFixture;
use crate::harness::runtime_calls::{ask_body, tokens, with};

/// Requests of one history.
const REQUESTS: usize = 150;

const SCOPES: [&str; 4] = [
    "tenant:acme",
    "tenant:acme/app:chat",
    "tenant:acme/app:chat/agent:writer",
    "tenant:acme/workspace:w/toolset:t",
];

/// The knowledge of a client of a history.
struct Client<'a> {
    issued: &'a EvidenceFixture,
    random: StdRng,
    keys: usize,
    /// Reservations, ended ones too.
    held: Vec<String>,
    /// Attested requests and responses.
    seen: Vec<(Endpoint, Value, Value)>,
    /// Requests without their responses, to be repeated.
    repeated: Vec<(String, Value, Value)>,
}

impl Client<'_> {
    fn key(&mut self) -> String {
        self.keys += 1;
        format!("key {} é\u{1f600}", self.keys)
    }

    fn one_of<'v>(&mut self, values: &'v [Value]) -> &'v Value {
        &values[self.random.random_range(0..values.len())]
    }

    /// A free object, mostly small.
    fn free(&mut self) -> Value {
        let values = [
            json!({}),
            json!({"a": null, "\u{1f600}": 1, "\u{fb33}": 2, "Z": 3, "a b": "\u{7f}\n\"\\/"}),
            json!({"deep": [[[[{"x": [0.1, -0.0, 1e21, 1e-7, 100_000_000_000_000_000_000_f64]}]]]]}),
            json!({"long": "é".repeat(self.random.random_range(0..3_000))}),
            json!({"n": 9_007_199_254_740_991_i64, "m": -5}),
        ];
        self.one_of(&values).clone()
    }

    /// The members that a client may name, some of them.
    fn some(&mut self, members: Value) -> Value {
        let members = members.as_object().expect("members").clone();
        let some = members.into_iter().filter(|_| self.random.random_bool(0.4));
        Value::Object(some.collect())
    }

    fn ask(&mut self) -> Value {
        let scope = SCOPES[self.random.random_range(0..SCOPES.len())];
        let (key, amount) = (self.key(), self.random.random_range(0..400));
        let body = ask_body(&key, scope, amount);
        let free = self.free();
        let more = self.some(json!({
            "metadata": free,
            "action": {"kind": "K", "name": "n\n", "tags": ["b", "a"], "policy_keys": {"p": "q"}},
        }));
        with(body, more)
    }

    async fn post(&mut self, path: &str, endpoint: Endpoint, body: Value) -> Value {
        let response = self.issued.app.post(path, body.clone()).await;
        let success = response.is_success();
        match self.issued.reference(&response.body) {
            Some(_) => self
                .seen
                .push((endpoint, body.clone(), response.body.clone())),
            None => assert!(!success, "{path} {body}: {response:?}"),
        }
        if success {
            self.repeated
                .push((path.to_owned(), body, response.body.clone()));
        }
        response.body
    }

    async fn step(&mut self) {
        match self.random.random_range(0..10) {
            0..4 => {
                let (body, unit) = (self.ask(), self.random.random_bool(0.05));
                let (ttl_ms, dry_run) = (5_000 + self.keys, self.random.random_bool(0.3));
                let more = self.some(json!({
                    "ttl_ms": ttl_ms, "grace_period_ms": 5_000, "overage_policy": "ALLOW_WITH_OVERDRAFT",
                    "dry_run": dry_run, "observe_mode": "DISABLED",
                }));
                let mut body = with(body, more);
                if unit {
                    body["estimate"]["unit"] = json!("CREDITS");
                }
                let response = self.post("/v1/reservations", Endpoint::Reserve, body).await;
                let id = response["reservation_id"].as_str();
                self.held.extend(id.map(str::to_owned));
            }
            4..8 if !self.held.is_empty() => {
                let id = self.held[self.random.random_range(0..self.held.len())].clone();
                let key = self.key();
                let (free, custom) = (self.free(), self.free());
                if self.random.random_bool(0.7) {
                    let body = json!({"idempotency_key": key, "actual": tokens(self.random.random_range(0..500))});
                    let more = self.some(json!({
                        "metadata": free,
                        "metrics": {"latency_ms": 5, "model_version": "v", "custom": custom},
                    }));
                    let path = format!("/v1/reservations/{id}/commit");
                    self.post(&path, Endpoint::Commit, with(body, more)).await;
                } else {
                    let more = self.some(json!({"reason": "because"}));
                    let body = with(json!({"idempotency_key": key}), more);
                    let path = format!("/v1/reservations/{id}/release");
                    self.post(&path, Endpoint::Release, body).await;
                }
            }
            8 => {
                let body = self.ask();
                self.post("/v1/decide", Endpoint::Decide, body).await;
            }
            _ if !self.repeated.is_empty() => {
                let at = self.random.random_range(0..self.repeated.len());
                let (path, body, first) = self.repeated[at].clone();
                let again = self.issued.app.post(&path, body).await.expect(200);
                let reference = self.issued.reference(&again.body);
                assert_eq!(reference, self.issued.reference(&first));
            }
            _ => {}
        }
    }
}

async fn history(more: &[&'static str]) {
    let free = ["--evidence-requests-per-minute", "0"];
    let mut issued = EvidenceFixture::spawn(&[more, &free].concat()).await;
    for (scope, allocated, limit) in [
        ("tenant:acme", 9_000, 2_000),
        (SCOPES[1], 2_000, 0),
        (SCOPES[2], 700, 500),
    ] {
        issued.app.budget(scope, allocated, limit).await;
    }
    let seed = crate::harness::seed_of_history();
    let mut client = Client {
        issued: &issued,
        random: StdRng::seed_from_u64(seed),
        keys: 0,
        held: Vec::new(),
        seen: Vec::new(),
        repeated: Vec::new(),
    };
    for _ in 0..REQUESTS {
        client.step().await;
    }
    let Client { seen, .. } = client;
    let pass = issued.sign().await;
    assert_eq!(
        (pass.signed, pass.quarantined),
        (seen.len(), 0),
        "seed {seed}"
    );
    let mut kinds = std::collections::BTreeMap::new();
    for (endpoint, sent, got) in &seen {
        let envelope = issued.check(*endpoint, sent, got).await;
        let kind = envelope["artifact_type"]
            .as_str()
            .expect("a text")
            .to_owned();
        *kinds.entry(kind).or_insert(0) += 1;
    }
    assert!(kinds.len() >= 4, "{kinds:?}");
}

#[tokio::test]
async fn e04_a_random_history_is_attested_completely() {
    history(&[]).await;
}

#[tokio::test]
async fn e19_a_random_history_in_the_other_dialect_is_attested_completely() {
    history(&["--dialect", "cycles", "--evidence-signer", "did"]).await;
}
