//! References to signed evidence, as responses and records carry them.

use super::dialect::Dialect;
use super::fields::{object, plain_field};
use super::ids::EvidenceId;
use super::json::{Canonical, Json};

/// The inputs of the evidence of a request.
#[derive(Debug, Clone)]
pub struct AttestedRequest {
    /// The members that the client sent, save those without effect.
    pub canonical: Canonical,
    /// The digest of the canonical form, as a [payload hash](super::payload_hash::PayloadHash) has it.
    pub digest: String,
    /// The members with a default among them: see [`named_defaults`].
    pub named: String,
    /// Whether it only tries.
    pub is_dry_run: bool,
}

/// The members of a create that have a default, each named by a letter, where the request has them. The lifetime has its value,
/// since a record has the one that was granted; `dry_run` can only be `false`, since a dry run keeps its whole request.
pub fn named_defaults(request: &Json) -> String {
    let mut words = String::new();
    let mut push = |word: &str| {
        let blank = if words.is_empty() { "" } else { " " };
        words.extend([blank, word]);
    };
    if let Some(lifetime) = request.member("ttl_ms") {
        push(&format!("t{}", lifetime.rfc8785()));
    }
    for (name, letter) in [
        ("grace_period_ms", "g"),
        ("overage_policy", "o"),
        ("dry_run", "d"),
    ] {
        if request.member(name).is_some() {
            push(letter);
        }
    }
    words
}

object! {
    /// Names one piece of signed evidence and where to read it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct EvidenceRef: Serialize {
        /// Names the evidence by its content.
        evidence_id: String { keyword: ("pattern", || EvidenceId::PATTERN.into()) },
        /// Where it can be read.
        url: EvidenceUrl {
            name: Dialect::default().words().evidence_url_member,
            named_by: |url| url.dialect.words().evidence_url_member,
            keyword: ("format", || "uri".into()),
        },
    }
}

/// The URL of a piece of evidence, whose member the dialect names.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
struct EvidenceUrl {
    text: String,
    #[serde(skip)]
    dialect: Dialect,
}

plain_field!(EvidenceUrl as String);

impl EvidenceRef {
    /// `evidence_id`: 64 hexadecimal digits; `url`: absolute.
    pub fn new(dialect: Dialect, evidence_id: String, url: String) -> Self {
        Self {
            evidence_id,
            url: EvidenceUrl { text: url, dialect },
        }
    }
}

/// Name of the member of a response that holds a reference; the dialect decides it.
pub(crate) fn member_name(reference: &Option<EvidenceRef>) -> &'static str {
    let dialect = reference.as_ref().map(|reference| reference.url.dialect);
    dialect.unwrap_or_default().words().evidence_member
}

object! {
    /// The evidence of a reservation, in its record. At most one of `commit` and `release`.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct ReservationEvidence: Serialize {
        /// Of the create.
        pub reserve: Option<EvidenceRef>,
        /// Of the commit.
        pub commit: Option<EvidenceRef>,
        /// Of the release.
        pub release: Option<EvidenceRef>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    object! {
        /// A response with evidence.
        struct Response: Serialize {
            /// Status.
            status: String,
            /// Evidence.
            evidence: Option<EvidenceRef> { named_by: member_name },
        }
    }

    #[test]
    fn the_dialect_names_the_reference_in_responses_but_not_in_records() {
        let (id, url) = ("ab", "https://x/ab");
        let reference = |dialect| Some(EvidenceRef::new(dialect, id.to_owned(), url.to_owned()));
        let text = |evidence| {
            let status = "OK".to_owned();
            serde_json::to_string(&Response { status, evidence }).unwrap()
        };
        assert_eq!(text(None), r#"{"status":"OK"}"#);
        assert_eq!(
            text(reference(Dialect::Service)),
            r#"{"status":"OK","evidence":{"evidence_id":"ab","service_evidence_url":"https://x/ab"}}"#
        );
        assert_eq!(
            text(reference(Dialect::Cycles)),
            r#"{"status":"OK","cycles_evidence":{"evidence_id":"ab","cycles_evidence_url":"https://x/ab"}}"#
        );
        let record = ReservationEvidence {
            reserve: reference(Dialect::Cycles),
            ..Default::default()
        };
        assert_eq!(
            serde_json::to_string(&record).unwrap(),
            r#"{"reserve":{"evidence_id":"ab","cycles_evidence_url":"https://x/ab"}}"#
        );
    }
}
