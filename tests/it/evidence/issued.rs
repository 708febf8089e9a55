//! A service that attests, its signer, and a client that checks what it reads.

use std::collections::HashMap;
use std::time::Duration;

use budget_authority::config::{DispatcherArgs, SigningConfig};
use budget_authority::dispatcher::sweep::{ClockMetrics, ClockWatch};
use budget_authority::dispatcher::{Signer, SignerMetrics, SignerPass};
use budget_authority::domain::json::{Canonical, Json};
use budget_authority::evidence::{
    Disposition, Endpoint, Keys, attested_request, attested_response, verify,
};
use budget_authority::store::Issuing;
use clap::Parser;
use reqwest::Method;
use serde_json::Value;

use crate::dispatcher::fan_out::leases;
use crate::harness::app::{SECRET_KEYS, TestApp};
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

/// What a dispatcher with these settings signs with.
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
    measured_signer_by(app, clock_watch(), config)
}

/// A watch of Redis's clock that has not read it yet.
pub fn clock_watch() -> ClockWatch {
    let metrics = ClockMetrics::register(&prometheus::Registry::new());
    ClockWatch::new(metrics.expect("distinct names"))
}

/// A signer by a clock of the test's choice.
pub fn measured_signer_by(
    app: &TestApp,
    clock: ClockWatch,
    config: SigningConfig,
) -> (Signer, SignerMetrics) {
    let issuing = Issuing::new(config.evidence.issuers.clone());
    let metrics = SignerMetrics::register(&prometheus::Registry::new());
    let metrics = metrics.expect("distinct names");
    let signer = Signer::new(app.store.clone(), clock, config, issuing, metrics.clone());
    (signer, metrics)
}

/// See the module.
pub struct Issued {
    pub app: TestApp,
    pub signer: Signer,
    pub settings: Vec<&'static str>,
}

impl Issued {
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
            sum.confirmed += pass.confirmed;
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
        let request = attested_request(endpoint, &parsed(sent)).canonical;
        let is_long = artifact == "error" && request.as_str().len() > 4_096;
        match payload.get("request") {
            Some(attested) => assert_eq!(canonical(attested), request),
            None => assert!(is_long, "no request in {envelope}"),
        }
        let response = attested_response(&parsed(got));
        assert_eq!(Some(canonical(&payload["response"])), response);
        envelope
    }
}

fn canonical(value: &Value) -> Canonical {
    Canonical::of_json(&parsed(value))
}

fn parsed(value: &Value) -> Json {
    Json::parse(value.to_string().as_bytes()).expect("JSON")
}

/// Long enough that nothing is confirmed in a test that does not want it.
pub const LATER: Duration = Duration::from_secs(600);
