//! References to signed evidence, as responses and records carry them.

use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, Object, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use super::dialect::Dialect;

/// Names one piece of signed evidence and where to read it. Its members are named by the dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceRef {
    dialect: Dialect,
    evidence_id: String,
    url: String,
}

impl EvidenceRef {
    /// `evidence_id`: 64 hexadecimal digits; `url`: absolute.
    pub fn new(dialect: Dialect, evidence_id: String, url: String) -> Self {
        Self {
            dialect,
            evidence_id,
            url,
        }
    }
}

impl Serialize for EvidenceRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("evidence_id", &self.evidence_id)?;
        map.serialize_entry(self.dialect.words().evidence_url_member, &self.url)?;
        map.end()
    }
}

impl PartialSchema for EvidenceRef {
    fn schema() -> RefOr<Schema> {
        let url = Dialect::default().words().evidence_url_member;
        let id = Object::builder()
            .schema_type(Type::String)
            .pattern(Some("^[0-9a-f]{64}$"))
            .description(Some("Names the evidence by its content."));
        let uri = Object::builder()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::Custom("uri".to_owned())))
            .description(Some("Where it can be read."));
        Object::builder()
            .description(Some(
                "Names one piece of signed evidence and where to read it.",
            ))
            .property("evidence_id", id)
            .required("evidence_id")
            .property(url, uri)
            .required(url)
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(false)))
            .into()
    }
}

impl ToSchema for EvidenceRef {}

/// Writes the reference as a member of the response around it; the dialect names the member. For `#[serde(flatten)]`.
pub(crate) fn serialize_reference<S: Serializer>(
    reference: &Option<EvidenceRef>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    if let Some(reference) = reference {
        map.serialize_entry(reference.dialect.words().evidence_member, reference)?;
    }
    map.end()
}

/// The evidence of a reservation's life, in its record. At most one of `commit` and `release`.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationEvidence {
    /// Of the create.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reserve: Option<EvidenceRef>,
    /// Of the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub commit: Option<EvidenceRef>,
    /// Of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub release: Option<EvidenceRef>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize)]
    struct Answer {
        status: &'static str,
        #[serde(flatten, serialize_with = "serialize_reference")]
        evidence: Option<EvidenceRef>,
    }

    #[test]
    fn the_dialect_names_the_reference_in_answers_but_not_in_records() {
        let reference = |dialect| {
            Some(EvidenceRef::new(
                dialect,
                "ab".to_owned(),
                "https://x/ab".to_owned(),
            ))
        };
        let text = |evidence| {
            serde_json::to_string(&Answer {
                status: "OK",
                evidence,
            })
            .unwrap()
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
