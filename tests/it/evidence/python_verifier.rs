//! The verifier in `examples` and ours agree on everything, and the examples of the document are right.

use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::ids::{TraceId, hex};
use budget_authority::domain::json::{Canonical, Json};
use budget_authority::evidence::{
    Disposition, Endpoint, Issuer, Keys, Payload, ServerId, Signer, SigningKey, Statement,
    Unsigned, verify,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::corpus::{AT_MS, Case, Corpus};
use crate::harness::evidence_keys::SERVER_ID;
use crate::http::clients::{prepare, target};
use crate::tools::evidence::{Folder, documented};

const SEED: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Reads cases, a line each; writes what comes of each.
const VERIFY_IN_PYTHON: &str = "
import base64, json, sys
from verifier import verify
for line in sys.stdin:
    envelope, key_set, server_id = json.loads(line)
    print(verify(base64.b64decode(envelope), None if key_set is None else base64.b64decode(key_set), server_id))
";

/// Runs a program in Python beside the verifier of the examples, with an input; its output.
async fn python(program: &'static str, input: String) -> String {
    prepare("python").await;
    let mut command = Command::new(target().join("python/bin/python"));
    command.args(["-B", "-c", program]);
    command.env(
        "PYTHONPATH",
        concat!(env!("CARGO_MANIFEST_DIR"), "/examples/evidence"),
    );
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let run = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("piped");
        let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().expect("it ends");
        writing.join().expect("no panic").expect("it reads");
        assert!(output.status.success());
        output.stdout
    });
    String::from_utf8(run.await.expect("no panic")).expect("text")
}

fn line(case: &Case) -> String {
    let base64 = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
    let set = case.set.as_deref().map(base64);
    format!("{}\n", json!([base64(&case.envelope), set, case.server_id]))
}

fn ours(case: &Case) -> Disposition {
    let keys = case.set.as_deref().map_or(Keys::Absent, Keys::Set);
    verify(&case.envelope, keys, None, case.server_id).disposition
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verifier_in_python_agrees_with_ours() {
    let corpus = Corpus::new().cases;
    let input = corpus.iter().map(line).collect();
    let judging = tokio::task::spawn_blocking(|| {
        let judged: Vec<_> = corpus.iter().map(ours).collect();
        (corpus, judged)
    });
    let theirs = python(VERIFY_IN_PYTHON, input).await;
    let (corpus, judged) = judging.await.expect("no panic");
    let theirs: Vec<_> = theirs.lines().collect();
    assert_eq!(theirs.len(), corpus.len());
    let mut counts = [0; Disposition::ALL.len()];
    let mut differences = Vec::new();
    for ((case, ours), theirs) in corpus.iter().zip(&judged).zip(theirs) {
        let index = Disposition::ALL.iter().position(|one| one == ours);
        counts[index.expect("one of all")] += 1;
        if ours.as_str() != theirs {
            differences.push(format!(
                "{}: ours {}, theirs {theirs}",
                case.name,
                ours.as_str()
            ));
        }
    }
    let first = &differences[..differences.len().min(20)];
    assert!(
        differences.is_empty(),
        "{} of {}: {first:#?}",
        differences.len(),
        corpus.len()
    );
    // The original was a valid envelope.
    let unaltered = |(case, _): &(&Case, Disposition)| {
        case.name.starts_with("payload ") && !case.name.contains("variant")
    };
    let unaltered = corpus.iter().zip(judged).filter(unaltered);
    let unaltered: Vec<_> = unaltered.map(|(_, ours)| ours).collect();
    assert_eq!(unaltered, [Disposition::Authentic; 9]);
    // Neither of them can pass by refusing, or by accepting, all.
    let named: Vec<_> = Disposition::ALL
        .iter()
        .map(|one| one.as_str())
        .zip(counts)
        .collect();
    assert!(counts.iter().all(|count| *count >= 5), "{named:?}");
    eprintln!("{} cases, {named:?}", corpus.len());
}

/// As the head of the example says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verifier_in_python_reads_files() {
    prepare("python").await;
    let (set, envelopes) = documented();
    let folder = Folder::new();
    let set = folder.file("set", &set);
    for envelope in &envelopes {
        for (text, code, disposition) in [
            (envelope.clone(), 0, "authentic\n"),
            (
                envelope.replacen("17900", "17800", 1),
                1,
                "signature_invalid\n",
            ),
        ] {
            let mut command = Command::new(target().join("python/bin/python"));
            command.args([
                "-B",
                concat!(env!("CARGO_MANIFEST_DIR"), "/examples/evidence/verifier.py"),
            ]);
            command.args([&folder.file("envelope", &text), &set]);
            let run = tokio::task::spawn_blocking(move || command.output());
            let output = run.await.expect("no panic").expect("it starts");
            let printed = String::from_utf8_lossy(&output.stdout);
            assert_eq!(
                (output.status.code(), &*printed),
                (Some(code), disposition),
                "{output:?}"
            );
        }
    }
}

/// An envelope of ours whose texts and numbers are hard to write.
fn hard_to_encode(signer: fn(&ServerId) -> Signer) -> String {
    let server_id = ServerId::parse(SERVER_ID).expect("a server id");
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
    let canonical = |text: &str| Canonical::of_json(&Json::parse(text.as_bytes()).expect("JSON"));
    let request = format!(
        r#"{{"idempotency_key":"\u0000\u001f\u007f\"\\/é\u2028","actual":{{"unit":"TOKENS","amount":0}},
            "metadata":{{"\ufb33":[{}],"\ud83d\ude00":null,"é":{{}},"e\u0301":[],"":true}}}}"#,
        numbers.join(",")
    );
    let payload = Payload {
        endpoint: Endpoint::Commit,
        refused: Some(410),
        request: Some(canonical(&request)),
        reservation_id: Some("rsv".to_owned()),
        response: canonical(r#"{"error":"RESERVATION_EXPIRED","message":"m","request_id":"r"}"#),
    };
    let statement = Statement {
        issued_at_ms: AT_MS,
        trace_id: TraceId::parse("5b8efff798038103d269b633813fc60c"),
        payload,
    };
    let unsigned = Unsigned::new(&issuer, &statement).expect("an envelope");
    unsigned.sign(&SigningKey::parse(SEED).expect("a seed"))
}

/// Signs what it reads, with nothing of ours but the canonical form of the example.
const SIGN_IN_PYTHON: &str = "
import hashlib, json, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from canonical import canonical
envelope = json.load(sys.stdin)
envelope.update(evidence_id='', signature='')
envelope['evidence_id'] = hashlib.sha256(canonical(envelope, 72)).hexdigest()
key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
envelope['signature'] = key.sign(canonical(envelope, 72)).hex()
print(json.dumps(envelope, indent=1))
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_envelope_equals_that_of_another_implementation() {
    let (set, _) = documented();
    for signer in [
        (|_: &ServerId| Signer::Raw(SigningKey::parse(SEED).expect("a seed").public()))
            as fn(&ServerId) -> Signer,
        |server_id| Signer::listed(Dialect::Service, server_id, "k2026-09"),
    ] {
        let ours = hard_to_encode(signer);
        let theirs = python(SIGN_IN_PYTHON, ours.clone()).await;
        let canonical = Json::parse(theirs.as_bytes()).expect("JSON").rfc8785();
        assert_eq!(canonical, ours);
        let verified = verify(theirs.as_bytes(), Keys::Set(set.as_bytes()), None, None);
        assert_eq!(
            verified.disposition,
            Disposition::Authentic,
            "{}",
            verified.reason
        );
    }
}

/// The value of a row of the table with these values, for each of the two envelopes.
fn row(name: &str) -> [String; 2] {
    let document = include_str!("../../../docs/evidence.md");
    let start = format!("| {name} | ");
    let row = document
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .expect(name);
    let cells: Vec<_> = row.trim_end_matches(" |").split(" | ").collect();
    let [first, second] = cells[..] else {
        panic!("two values: {row}")
    };
    [first, second].map(|cell| cell.trim_matches('`').to_owned())
}

/// The document has every step of the way, so that whoever goes wrong sees where.
#[test]
fn the_documented_steps_give_the_documented_envelopes() {
    let key = SigningKey::parse(SEED).expect("a seed");
    let (_, envelopes) = documented();
    let with = |envelope: &Value, members: &[(&str, &str)]| {
        let mut changed = envelope.clone();
        for (name, text) in members {
            changed[name] = json!(text);
        }
        let changed = serde_json::to_vec(&changed).expect("JSON");
        Json::parse(&changed).expect("JSON").rfc8785()
    };
    for (at, document) in envelopes.iter().enumerate() {
        let envelope: Value = serde_json::from_str(document).expect("JSON");
        let unnamed = with(&envelope, &[("evidence_id", ""), ("signature", "")]);
        let id = hex(&Sha256::digest(&unnamed));
        let unsigned = with(&envelope, &[("evidence_id", &id), ("signature", "")]);
        let whole = with(
            &envelope,
            &[
                ("evidence_id", &id),
                ("signature", &key.sign(unsigned.as_bytes())),
            ],
        );
        assert_eq!(&whole, document);
        let found = |name: &str| row(name)[at].clone();
        assert_eq!(
            found("bytes without id and signature"),
            unnamed.len().to_string()
        );
        assert_eq!(found("their SHA-256, `evidence_id`"), id);
        assert_eq!(found("bytes without signature"), unsigned.len().to_string());
        assert_eq!(found("their SHA-256"), hex(&Sha256::digest(&unsigned)));
        assert_eq!(found("bytes in all"), whole.len().to_string());
        assert_eq!(found("SHA-256 of all"), hex(&Sha256::digest(&whole)));
    }
}
