//! A service that attests, its signer, and a client that checks what it reads.

use std::collections::HashMap;

use budget_authority::config::{DispatcherArgs, SigningConfig};
use budget_authority::dispatcher::sweep::{ClockMetrics, ClockWatch};
use budget_authority::domain::json::Json;
use budget_authority::evidence::signing::{Signer, SignerMetrics, SignerPass};
use budget_authority::evidence::{Disposition, Endpoint, Issuing, Keys, verify};
use budget_authority::store::Store;
use clap::Parser;
use reqwest::Method;
use serde_json::Value;

use crate::dispatcher::fan_out::leases;
use crate::harness::app::{ADMIN_KEY, SECRET_KEYS, TestApp};
use crate::harness::redis;

/// The key pair of every test service that attests.
pub const SEED: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
pub const PUBLIC: &str = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";
/// The public base that it claims.
pub const SERVER_ID: &str = "https://authority.example.com/v1";

/// Settings that turn evidence on.
pub const ON: &[&str] = &[
    "--evidence-server-id",
    SERVER_ID,
    "--evidence-public-key",
    PUBLIC,
    "--evidence-nbf-ms",
    "0",
];

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    dispatcher: DispatcherArgs,
}

/// The signing configuration of a dispatcher with these settings.
pub fn signing_config(settings: &[&str]) -> SigningConfig {
    let words = [
        "dispatch",
        "--redis-url",
        "redis://unused",
        "--secret-keys",
        SECRET_KEYS,
    ];
    let own = ["--evidence-seeds", SEED];
    let own: &[&str] = match settings.contains(&"--evidence-seeds") {
        true => &[],
        false => &own,
    };
    let args = Cli::parse_from(words.iter().chain(settings).chain(own));
    let config = args.dispatcher.into_config().expect("a configuration");
    config.evidence.expect("evidence")
}

/// The signer of a dispatcher with these settings.
pub fn signer(app: &TestApp, settings: &[&str]) -> Signer {
    signer_with(app, signing_config(settings))
}

/// The signer of a dispatcher with this configuration.
pub fn signer_with(app: &TestApp, config: SigningConfig) -> Signer {
    measured_signer(app, config).0
}

/// The same with its metrics.
pub fn measured_signer(app: &TestApp, config: SigningConfig) -> (Signer, SignerMetrics) {
    measured_signer_on(app.store.clone(), config)
}

/// A watch of Redis's clock that has not read it yet.
pub fn clock_watch() -> ClockWatch {
    let metrics = ClockMetrics::register(&prometheus::Registry::new());
    ClockWatch::new(metrics.expect("distinct names"))
}

/// A signer of this store.
pub fn measured_signer_on(store: Store, config: SigningConfig) -> (Signer, SignerMetrics) {
    let SigningConfig { evidence, keys } = config;
    let issuing = Issuing::new(evidence.issuers);
    let metrics = SignerMetrics::register(&prometheus::Registry::new());
    let metrics = metrics.expect("distinct names");
    let signer = Signer::new(store, issuing, keys, evidence.retention, metrics.clone());
    (signer, metrics)
}

/// See the module.
pub struct EvidenceFixture {
    pub app: TestApp,
    pub signer: Signer,
    pub settings: Vec<&'static str>,
}

impl EvidenceFixture {
    /// On the shared Redis, under a prefix of its own, with more settings.
    pub async fn spawn(more: &[&'static str]) -> Self {
        let settings: Vec<&'static str> = ON.iter().chain(more).copied().collect();
        let app = TestApp::spawn_on(&redis::shared().url(), &settings).await;
        let of_signer = more
            .chunks(2)
            .filter(|pair| ["--dialect", "--evidence-signer"].contains(&pair[0]));
        let of_signer: Vec<&str> = of_signer.flatten().copied().collect();
        Self {
            signer: signer(&app, &[ON, &of_signer].concat()),
            settings,
            app,
        }
    }

    /// Passes until nothing more is to be signed; the sums.
    pub async fn sign(&mut self) -> SignerPass {
        let mut sum = SignerPass::default();
        loop {
            let pass = self
                .signer
                .run_once(&leases())
                .await
                .expect("Redis answers");
            sum.signed += pass.signed;
            sum.quarantined += pass.quarantined;
            if !pass.more && pass.signed == 0 {
                return sum;
            }
        }
    }

    /// How many entries of the first tenant's partition are not done.
    pub async fn queued(&self) -> i64 {
        let partition = self.app.callers[0].partition;
        let key = self.app.store.keys().unsigned(partition);
        self.app.run(&["XLEN", &key]).await
    }

    /// How many entries were ever queued in that partition.
    pub async fn ever_queued(&self) -> usize {
        let partition = self.app.callers[0].partition;
        let key = self.app.store.keys().unsigned(partition);
        let stream: HashMap<String, ::redis::Value> =
            self.app.run(&["XINFO", "STREAM", &key]).await;
        let added = stream["entries-added"].clone();
        ::redis::from_redis_value(added).expect("a number")
    }

    /// The keys of all envelopes of this deployment.
    pub async fn envelopes(&self) -> Vec<String> {
        let pattern = format!("*{}*evidence:*", self.app.store.keys().prefix());
        let mut keys: Vec<String> = self.app.run(&["KEYS", &pattern]).await;
        keys.sort();
        keys
    }

    /// The reference of a response, by the name of the dialect.
    pub fn reference<'a>(&self, response: &'a Value) -> Option<&'a Value> {
        let member = match self.settings.contains(&"cycles") {
            true => "cycles_evidence",
            false => "evidence",
        };
        response.get(member)
    }

    /// The envelope that a reference names, which must be authentic.
    pub async fn envelope(&self, reference: &Value) -> Value {
        let id = reference["evidence_id"].as_str().expect("an id");
        let url = match self.settings.contains(&"cycles") {
            true => &reference["cycles_evidence_url"],
            false => &reference["service_evidence_url"],
        };
        assert_eq!(url, &format!("{SERVER_ID}/evidence/{id}"));
        let bytes = self.read(&format!("/v1/evidence/{id}")).await;
        let set = match self.settings.contains(&"cycles") {
            true => "/v1/.well-known/cycles-jwks.json",
            false => "/v1/.well-known/service-jwks.json",
        };
        let set = self.read(set).await;
        let found = verify(&bytes, Keys::Set(&set), None, Some(SERVER_ID));
        assert_eq!(
            found.disposition,
            Disposition::Authentic,
            "{}",
            found.reason
        );
        let envelope: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(envelope["evidence_id"], id);
        envelope
    }

    async fn read(&self, path: &str) -> Vec<u8> {
        let response = self
            .app
            .request(Method::GET, path)
            .send()
            .await
            .expect("a response");
        assert_eq!(response.status(), 200, "{path}");
        response.bytes().await.expect("a body").to_vec()
    }

    /// Checks that the envelope of a response attests what was sent and what came back; the envelope.
    pub async fn check(&self, endpoint: Endpoint, sent: &Value, got: &Value) -> Value {
        let reference = self
            .reference(got)
            .unwrap_or_else(|| panic!("no evidence in {got}"));
        let envelope = self.envelope(reference).await;
        let payload = envelope["payload"].as_object().expect("a payload");
        let (artifact, payload) = payload.iter().next().expect("one member");
        assert_eq!(envelope["artifact_type"], *artifact);
        let request = as_sent(endpoint, sent);
        match payload.get("request") {
            Some(attested) => assert!(is_same(attested, &request), "{attested}, sent {sent}"),
            None => {
                let is_long = parsed(&request).rfc8785().len() > 4_096;
                assert!(artifact == "error" && is_long, "no request in {envelope}");
            }
        }
        let mut response = got.clone();
        for member in ["evidence", "cycles_evidence", "remaining_ttl_ms"] {
            response.as_object_mut().expect("members").remove(member);
        }
        let attested = &payload["response"];
        assert!(is_same(attested, &response), "{attested}, got {got}");
        let text = envelope.to_string();
        let keys = self.app.keys.iter().map(String::as_str);
        for secret in keys.chain([ADMIN_KEY, SEED, SECRET_KEYS]) {
            assert!(!text.contains(secret), "a secret in {text}");
        }
        envelope
    }
}

/// The attested form of a request, computed without the code of the service: all of it, except `null` where a member has a
/// type, and what has no effect.
fn as_sent(endpoint: Endpoint, sent: &Value) -> Value {
    let mut request = sent.clone();
    let members = request.as_object_mut().expect("members");
    members.retain(|_, value| !value.is_null());
    if endpoint == Endpoint::Reserve {
        members.remove("observe_mode");
    }
    for name in ["subject", "action", "estimate", "actual", "metrics"] {
        if let Some(members) = members.get_mut(name).and_then(Value::as_object_mut) {
            members.retain(|_, value| !value.is_null());
            members.remove("policy_keys");
        }
    }
    request
}

/// Whether two values are the same; numbers with a point, if they are the same double.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one == other,
            _ => one.as_f64() == other.as_f64(),
        },
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, value)| other.get(name).is_some_and(|it| is_same(value, it));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

fn parsed(value: &Value) -> Json {
    Json::parse(value.to_string().as_bytes()).expect("JSON")
}
