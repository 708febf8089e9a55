//! `evidence verify` and the verifier in `examples`, as they are called: on the envelopes of the document, on ours, and on those of
//! another implementation.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use axum::Router;
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::ids::TraceId;
use budget_authority::domain::json::Json;
use budget_authority::evidence::{
    Endpoint, Issuer, Payload, ServerId, Signer, SigningKey, Statement, Unsigned,
};

use crate::http::clients::{prepare, target};

const SEED: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const PUBLIC: &str = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";
const SERVER: &str = "https://authority.example.com/v1";

/// The key set of the document, and its envelopes.
fn documented() -> (String, Vec<String>) {
    let document = include_str!("../../../docs/evidence.md");
    let lines = document
        .lines()
        .filter_map(|line| line.strip_prefix("    {"));
    let mut lines = lines.map(|line| format!("{{{line}"));
    (lines.next().expect("a key set"), lines.collect())
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("budget-authority-evidence-{:016x}", rand::random::<u64>());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("the temporary folder is writable");
        Self(folder)
    }

    /// Writes a file; its path.
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("the folder is writable");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `evidence verify` with an input; its exit code, and the first line of its output.
async fn verify(input: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
    command.args(["evidence", "verify"]).args(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let input = input.to_owned();
    let run = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("it is built");
        // A command that does not read its input may have ended.
        let _ = child
            .stdin
            .take()
            .expect("piped")
            .write_all(input.as_bytes());
        child.wait_with_output().expect("it ends")
    });
    let output = run.await.expect("no panic");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into())
}

/// Runs the verifier in `examples`; whether it accepts, and what it writes.
async fn verify_in_python(envelope: &str, key_set: &str) -> (bool, String) {
    prepare("python").await;
    let folder = Folder::new();
    let mut command = Command::new(target().join("python/bin/python"));
    command.arg(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/evidence_verifier.py"
    ));
    command.args([
        folder.file("envelope", envelope),
        folder.file("set", key_set),
    ]);
    let run = tokio::task::spawn_blocking(move || command.output());
    let output = run.await.expect("no panic").expect("it starts");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into(),
    )
}

/// An envelope of ours whose texts and numbers are hard to write.
fn awkward(signer: fn(&ServerId) -> Signer) -> String {
    let server_id = ServerId::parse(SERVER).expect("a server id");
    let issuer = Issuer {
        dialect: Dialect::Service,
        signer: signer(&server_id),
        server_id,
    };
    let numbers = [
        "0.1",
        "-0.0",
        "1e21",
        "1e20",
        "123456789012345680000",
        "4.50",
        "1e-6",
        "1e-7",
        "5e-324",
        "1.7976931348623157e308",
        "9007199254740992",
        "-1000000000000000000",
        "333333333.33333329",
        "0.000001234",
        "12e-1",
        "100",
    ];
    let request = format!(
        r#"{{"idempotency_key":"\u0000\u001f\u007f\"\\/é\u2028","actual":{{"unit":"TOKENS","amount":0}},
            "metadata":{{"\ufb33":[{}],"\ud83d\ude00":null,"é":{{}},"e\u0301":[],"":true}}}}"#,
        numbers.join(",")
    );
    let payload = Payload::Error {
        endpoint: Endpoint::Commit,
        http_status: 410,
        request: Some(Json::parse(request.as_bytes()).expect("JSON")),
        reservation_id: Some("rsv".to_owned()),
        response: Json::parse(br#"{"error":"RESERVATION_EXPIRED","message":"m","request_id":"r"}"#)
            .expect("JSON"),
    };
    let statement = Statement {
        issued_at_ms: 1_790_000_000_123,
        trace_id: TraceId::parse("5b8efff798038103d269b633813fc60c"),
        payload,
    };
    let unsigned = Unsigned::new(&issuer, statement).expect("an envelope");
    unsigned.sign(&SigningKey::parse(SEED).expect("a seed"))
}

#[tokio::test]
async fn the_envelopes_of_the_document_are_authentic() {
    let (set, envelopes) = documented();
    let folder = Folder::new();
    let set = folder.file("set", &set);
    assert_eq!(envelopes.len(), 2);
    for envelope in envelopes {
        let (code, text) = verify(&envelope, &["-", "--jwks", &set]).await;
        assert_eq!(code, Some(0), "{text}");
        assert!(text.starts_with("authentic: "), "{text}");
        // A file holds the same.
        let file = folder.file("envelope", &envelope);
        let (code, text) = verify(
            "",
            &[&file, "--jwks", &set, "--server-id", SERVER, "--json"],
        )
        .await;
        assert_eq!(code, Some(0), "{text}");
        assert!(
            text.starts_with(r#"{"disposition":"authentic","reason":"#),
            "{text}"
        );
        let (code, text) = verify(
            &envelope.replace("acme", "acne").replace("1800", "1801"),
            &["-", "--jwks", &set],
        )
        .await;
        assert_eq!(
            (code, text.starts_with("signature_invalid: ")),
            (Some(1), true),
            "{text}"
        );
    }
}

#[tokio::test]
async fn without_a_key_set_a_pin_decides() {
    let (_, envelopes) = documented();
    let other = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
    for (envelope, codes, first) in [
        (&envelopes[0], [2, 0, 1], "binding_only"),
        (&envelopes[1], [2, 0, 2], "signer_resolution_failed"),
    ] {
        let (code, text) = verify(envelope, &["-"]).await;
        assert_eq!(
            (code, text.starts_with(first)),
            (Some(codes[0]), true),
            "{text}"
        );
        let (code, text) = verify(envelope, &["-", "--pin", PUBLIC]).await;
        assert_eq!(
            (code, text.contains("it is the pinned key")),
            (Some(codes[1]), true),
            "{text}"
        );
        let (code, text) = verify(envelope, &["-", "--pin", other]).await;
        assert_eq!(
            (code, text.contains("not the pinned key")),
            (Some(codes[2]), true),
            "{text}"
        );
    }
    let (code, text) = verify("", &["-", "--pin", &PUBLIC.to_uppercase()]).await;
    assert_eq!(
        (code, text.contains("64 lower-case")),
        (Some(2), true),
        "{text}"
    );
    let (code, text) = verify("", &["/missing"]).await;
    assert_eq!(
        (code, text.contains("cannot be read")),
        (Some(2), true),
        "{text}"
    );
}

/// Serves a key set under the name that the dialect gives it, and a redirect elsewhere.
async fn serve(set: String) -> String {
    let router = Router::new().fallback(move |uri: Uri| {
        let set = set.clone();
        async move {
            match uri.path() {
                "/v1/.well-known/service-jwks.json" => (StatusCode::OK, [(LOCATION, "/")], set),
                _ => (
                    StatusCode::FOUND,
                    [(LOCATION, "/v1/.well-known/service-jwks.json")],
                    set,
                ),
            }
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

#[tokio::test]
async fn keys_are_fetched_from_the_server_that_was_named() {
    let (set, envelopes) = documented();
    let url = serve(set).await;
    let published = format!("{url}/v1/.well-known/service-jwks.json");
    let (code, text) = verify(&envelopes[0], &["-", "--jwks", &published]).await;
    assert_eq!(
        (code, text.starts_with("authentic: ")),
        (Some(0), true),
        "{text}"
    );
    // The envelope names another server than the one that is asked.
    let (code, text) = verify(&envelopes[0], &["-", "--server-id", &format!("{url}/v1")]).await;
    assert_eq!(
        (code, text.starts_with("signer_authority_failed: ")),
        (Some(1), true),
        "{text}"
    );
    let (code, text) = verify(&envelopes[0], &["-", "--jwks", &format!("{url}/moved")]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("signer_resolution_failed: ") && text.contains("302"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verifier_in_python_accepts_ours_and_refuses_what_was_altered() {
    let (set, mut envelopes) = documented();
    envelopes.push(awkward(|_| {
        Signer::Raw(SigningKey::parse(SEED).expect("a seed").public())
    }));
    envelopes.push(awkward(|server_id| {
        Signer::listed(Dialect::Service, server_id, "k2026-09")
    }));
    for envelope in envelopes {
        let (accepted, text) = verify_in_python(&envelope, &set).await;
        assert!(accepted, "{envelope}: {text}");
        for (from, to) in [
            ("TOKENS", "CREDITS"),
            ("\"signature\":\"", "\"signature\":\"0"),
            ("17900", "17800"),
        ] {
            let (accepted, text) = verify_in_python(&envelope.replacen(from, to, 1), &set).await;
            assert!(
                !accepted && text.contains("refused: "),
                "{from} {to}: {text}"
            );
        }
        let late = set.replace("1789000000000", "1799000000000");
        let (accepted, text) = verify_in_python(&envelope, &late).await;
        assert!(
            !accepted && text.contains("the key set has no key"),
            "{text}"
        );
    }
}

/// Signs what it reads, with nothing of ours but the canonical form of the example.
const SIGN_IN_PYTHON: &str = "
import hashlib, json, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from evidence_verifier import canonical
envelope = json.load(sys.stdin)
envelope.update(evidence_id='', signature='')
envelope['evidence_id'] = hashlib.sha256(canonical(envelope).encode()).hexdigest()
key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
envelope['signature'] = key.sign(canonical(envelope).encode()).hex()
print(json.dumps(envelope, indent=1))
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_envelope_of_another_implementation_is_ours_to_the_byte() {
    prepare("python").await;
    let (set, _) = documented();
    let folder = Folder::new();
    let set = folder.file("set", &set);
    let ours = awkward(|server_id| Signer::listed(Dialect::Service, server_id, "k2026-09"));
    let mut command = Command::new(target().join("python/bin/python"));
    command.args(["-B", "-c", SIGN_IN_PYTHON]);
    command.env(
        "PYTHONPATH",
        concat!(env!("CARGO_MANIFEST_DIR"), "/examples"),
    );
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let input = ours.clone();
    let run = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("it starts");
        let written = child
            .stdin
            .take()
            .expect("piped")
            .write_all(input.as_bytes());
        written.expect("it reads");
        child.wait_with_output().expect("it ends")
    });
    let theirs = String::from_utf8(run.await.expect("no panic").stdout).expect("text");
    let canonical = Json::parse(theirs.as_bytes()).expect("JSON").rfc8785();
    assert_eq!(canonical, ours);
    let (code, text) = verify(&theirs, &["-", "--jwks", &set]).await;
    assert_eq!(
        (code, text.starts_with("authentic: ")),
        (Some(0), true),
        "{text}"
    );
}
