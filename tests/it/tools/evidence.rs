//! `evidence verify`, as it is called: on the envelopes of the document, and on ours.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use axum::Router;
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};

const PUBLIC: &str = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";
const SERVER: &str = "https://authority.example.com/v1";

/// The key set of the document, and its envelopes.
pub(crate) fn documented() -> (String, Vec<String>) {
    let document = include_str!("../../../docs/evidence.md");
    let lines = document
        .lines()
        .filter_map(|line| line.strip_prefix("    {"));
    let mut lines = lines.map(|line| format!("{{{line}"));
    (lines.next().expect("a key set"), lines.collect())
}

/// A folder that goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let name = format!("budget-authority-evidence-{:016x}", rand::random::<u64>());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("the temporary folder is writable");
        Self(folder)
    }

    /// Writes a file; its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
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
async fn e30_without_a_key_set_a_pin_decides() {
    let (_, envelopes) = documented();
    let other = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
    for (envelope, codes, first) in [
        (&envelopes[0], [2, 0, 1], "binding_only"),
        (&envelopes[1], [2, 0, 1], "signer_resolution_failed"),
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
        // A pin also decides when the key set cannot be read.
        for (pin, code) in [(PUBLIC, 0), (other, 1)] {
            let arguments = ["-", "--jwks", "/missing", "--pin", pin];
            let (found, text) = verify(envelope, &arguments).await;
            assert_eq!(found, Some(code), "{text}");
        }
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
async fn keys_are_fetched_only_from_the_named_server() {
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
    // A text that is not a URL could only name a file.
    for server_id in ["authority.example.com", "/v1", "file:///v1"] {
        let (code, text) = verify(&envelopes[0], &["-", "--server-id", server_id]).await;
        assert_eq!((code, text.contains("base URL")), (Some(2), true), "{text}");
    }
    // A server that cannot be reached, and why.
    let refused = format!("http://127.0.0.1:{}/", crate::harness::redis::free_port());
    for arguments in [&["-", "--jwks", &refused][..], &[&refused]] {
        let (code, text) = verify(&envelopes[0], arguments).await;
        let has_cause = text.contains("Connection refused");
        assert_eq!((code, has_cause), (Some(2), true), "{text}");
    }
}
