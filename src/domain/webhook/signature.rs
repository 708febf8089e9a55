//! The signature by which a receiver knows that a delivery is ours and unchanged.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::domain::ids::hex;

/// `sha256=` and the HMAC-SHA256 of the exact bytes of a body, in lower-case hexadecimal. The key is the secret's text as
/// it was shown, its `whsec_` included.
pub fn sign(secret: &str, body: &[u8]) -> String {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
    mac.update(body);
    format!("sha256={}", hex(&mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_the_published_ones() {
        let expected = "sha256=975bc3b147f8f1205d172ebd3f2af8abce71bf0af896df250cf240411d7476b1";
        assert_eq!(sign("s3cret", r#"{"note":"café"}"#.as_bytes()), expected);
        let body = concat!(
            r#"{"event_id":"evt_0a1b2c3d4e5f6071","event_type":"budget.exhausted","category":"budget","#,
            r#""timestamp":"2026-04-09T14:05:06.789Z","tenant_id":"acme","scope":"tenant:acme/app:chat","#,
            r#""source":"service-server","actor":{"type":"api_key","key_id":"key_01","source_ip":"203.0.113.7"},"#,
            r#""data":{"scope":"tenant:acme/app:chat","unit":"TOKENS","threshold":1.0,"utilization":1.0,"#,
            r#""allocated":1500,"remaining":0,"spent":0,"reserved":1500,"direction":"rising"},"#,
            r#""correlation_id":"runtime:215bc7ed42878647e783e0ae95b4c77b","request_id":"req-01","#,
            r#""trace_id":"5b8efff798038103d269b633813fc60c"}"#
        );
        assert_eq!(body.len(), 569);
        let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        let expected = "sha256=84372e1029d15e801da83d43e886c441369d03c99c0765d81a3f8e42f6d1af7e";
        assert_eq!(sign(secret, body.as_bytes()), expected);
    }
}
