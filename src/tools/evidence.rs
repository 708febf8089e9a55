//! `evidence verify`: what an envelope proves, offline or with a key set.
//!
//! The envelope's own `server_id` is never asked: a forger names a server of his own. The caller says whose keys count.

use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use reqwest::Url;
use serde_json::json;

use super::client::http;
use crate::evidence::{Disposition, Keys, PublicKey, Verification, dialect_of, verify};
use crate::telemetry::error_chain;

/// Longer documents are not read: a request of the service is shorter.
const BYTES_MAX: u64 = 4 << 20;

/// How long to wait for a document of a server.
const RESPONSE_LIMIT: Duration = Duration::from_secs(30);

const EXIT_CODES: &str = "Exit codes: 0 the envelope is authentic, or signed by the pinned key, 1 it is not, 2 unknown: without a pin, nothing says whose key it is; or the envelope could not be read";

/// Settings of `budget-authority evidence verify`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXIT_CODES)]
pub struct EvidenceVerifyArgs {
    /// The envelope: a file, a URL, or - for standard input
    #[arg(value_name = "FILE|URL|-")]
    envelope: String,
    /// Key set of the issuer: a file or a URL
    #[arg(long, value_name = "FILE|URL")]
    jwks: Option<String>,
    /// Public key that must have signed it: 64 lower-case hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = public_key)]
    pin: Option<PublicKey>,
    /// Base URL of the issuer, with /v1, as the envelope must have it to the letter. Its key set is fetched, unless --jwks names one
    #[arg(long, value_name = "URL", value_parser = server_id)]
    server_id: Option<String>,
    /// PEM file with the authorities that signed the certificates of those servers; replaces the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn public_key(text: &str) -> Result<PublicKey, String> {
    PublicKey::parse(text)
        .ok_or_else(|| "64 lower-case hexadecimal digits of an Ed25519 public key".to_owned())
}

/// Returns the text unchanged, because it is compared byte by byte.
fn server_id(text: &str) -> Result<String, String> {
    match Url::parse(text) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) => Ok(text.to_owned()),
        _ => Err(
            "write the base URL of the issuer, such as https://authority.example.com/v1".to_owned(),
        ),
    }
}

/// Runs `evidence verify` and prints what it found; returns the exit code of the process.
pub async fn run(args: &EvidenceVerifyArgs, mut output: impl Write) -> u8 {
    let document = match read(&args.envelope, args.ca_file.clone()).await {
        Ok(document) => document,
        Err(reason) => {
            eprintln!("the envelope cannot be read: {reason}");
            return 2;
        }
    };
    let set;
    let keys = match key_set(args, &document) {
        None => Keys::Absent,
        Some(place) => match read(&place, args.ca_file.clone()).await {
            Ok(read) => {
                set = read;
                Keys::Set(&set)
            }
            Err(reason) => {
                eprintln!("the key set cannot be read: {place}: {reason}");
                Keys::Unavailable
            }
        },
    };
    let (pin, server_id) = (args.pin.as_ref(), args.server_id.as_deref());
    let found = verify(&document, keys, pin, server_id);
    let text = match args.json {
        true => as_json(&found),
        false => as_text(&found),
    };
    let written = output.write_all(text.as_bytes());
    let written = written.and_then(|()| output.flush());
    written.map_or(2, |()| exit_code(&found))
}

/// Place of the key set: `--jwks`, or a file on the server of `--server-id`. The dialect of the envelope decides its name.
fn key_set(args: &EvidenceVerifyArgs, document: &[u8]) -> Option<String> {
    let words = dialect_of(document).unwrap_or_default().words();
    let published = |server_id| format!("{server_id}/.well-known/{}", words.key_set_file);
    args.jwks
        .clone()
        .or_else(|| args.server_id.as_deref().map(published))
}

fn exit_code(found: &Verification) -> u8 {
    match (found.disposition, found.pin_matched) {
        (Disposition::SignatureInvalid | Disposition::SignerAuthorityFailed, _) => 1,
        // The signature was tried with the pinned key, or that key is not the one in the envelope.
        (_, Some(false)) => 1,
        (Disposition::Authentic, None) | (_, Some(true)) => 0,
        (Disposition::SignerResolutionFailed | Disposition::BindingOnly, None) => 2,
    }
}

fn as_text(found: &Verification) -> String {
    let pin = match found.pin_matched {
        Some(true) => "; it is the pinned key",
        Some(false) => "; it is not the pinned key",
        None => "",
    };
    format!("{}: {}{pin}\n", found.disposition.as_str(), found.reason)
}

fn as_json(found: &Verification) -> String {
    let mut object = json!({"disposition": found.disposition.as_str(), "reason": found.reason});
    if let Some(matched) = found.pin_matched {
        object["signer_pin_matched"] = json!(matched);
    }
    format!("{object}\n")
}

/// Reads a file, a URL, or standard input.
async fn read(place: &str, ca_file: Option<PathBuf>) -> Result<Vec<u8>, String> {
    match Url::parse(place) {
        _ if place == "-" => bounded(std::io::stdin()),
        Ok(url) if ["http", "https"].contains(&url.scheme()) => fetch(url, ca_file).await,
        _ => bounded(std::fs::File::open(Path::new(place)).map_err(|error| error.to_string())?),
    }
}

fn bounded(source: impl std::io::Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = source.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(format!("it is longer than {BYTES_MAX} bytes")),
        false => Ok(bytes),
    }
}

/// Reads a URL without following redirects, because a key set must come from the server that the caller named.
async fn fetch(url: Url, ca_file: Option<PathBuf>) -> Result<Vec<u8>, String> {
    let client = http(&url, RESPONSE_LIMIT, ca_file).map_err(|error| error.to_string())?;
    let response = client.get(url).send().await;
    let mut response = response.map_err(why)?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(format!("the server responded with {}", response.status()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(why)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > BYTES_MAX {
            return Err(format!("it is longer than {BYTES_MAX} bytes"));
        }
    }
    Ok(bytes)
}

/// A failed request with its causes, such as an untrusted certificate.
fn why(error: reqwest::Error) -> String {
    error_chain(&error.without_url())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e30_the_exit_code_is_0_for_proof_1_for_refutation_2_for_neither() {
        use Disposition as D;
        for (disposition, codes) in [
            (D::Authentic, [0, 0, 1]),
            (D::BindingOnly, [2, 0, 1]),
            (D::SignerAuthorityFailed, [1, 1, 1]),
            (D::SignerResolutionFailed, [2, 0, 1]),
            (D::SignatureInvalid, [1, 1, 1]),
        ] {
            let code = |pin_matched| {
                let reason = String::new();
                exit_code(&Verification {
                    disposition,
                    pin_matched,
                    reason,
                })
            };
            assert_eq!(
                [None, Some(true), Some(false)].map(code),
                codes,
                "{disposition:?}"
            );
        }
    }
}
