//! Audit entries: what a script appended, its place in the chain, and the response.
//!
//! Entries of a chain are numbered without gaps by the scripts that append them. Each is sealed with the hash of the one
//! before it, which was taken over that one's own seal too: changing, dropping or inserting one breaks all that follow.

pub mod entry;
mod metadata;
pub mod query;

use serde_json::json;
use sha2::{Digest, Sha256};

pub use metadata::Metadata;

use super::event::tenant_digest;
use super::fields::object;
use super::ids::{Partition, TRACE_ID_PATTERN, hex};
use super::json::{FreeObject, Json};
use super::log_entry::EntryId;
use super::moment::Moment;
use super::record::{Record, RecordError};

/// The seal of the first entry of a chain.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Entries of refused requests of a tenant's keys, or of unknown callers in a partition, in a minute: ten a second, which is 30 MB a
/// day of a program that never stops trying.
pub const FAILURES_PER_MINUTE: u32 = 600;

/// An entry as it lies in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Id of the entry in its stream, `<ms>-<sequence>`.
    pub id: String,
    /// Names and values in turn, as they were appended.
    pub fields: Vec<String>,
}

impl StoredEntry {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.fields.chunks_exact(2);
        pairs
            .find(|pair| pair[0] == name)
            .map(|pair| pair[1].as_str())
    }

    /// Its number in the chain, from 1.
    pub fn sequence(&self) -> Option<u64> {
        self.get("sequence")?.parse().ok()
    }

    /// The hash that seals the next entry: SHA-256, in hexadecimal, over the RFC 8785 form of this entry with its own seal.
    pub fn hash(&self, tenant: &str, seal: &str) -> String {
        let fields = self.fields.iter().map(|field| field.as_str().into());
        let sealed = Json::from_iter([
            ("entry", self.id.as_str().into()),
            ("fields", Json::Array(fields.collect())),
            ("prev_hash", seal.into()),
            ("tenant_id", tenant.into()),
        ]);
        hex(&Sha256::digest(sealed.canonical()))
    }
}

object! {
    /// The operation that a caller performed or tried.
    #[derive(Debug, Clone)]
    pub struct AuditLogEntry: Serialize + Recorded + Open {
        /// Id of the entry.
        pub log_id: String,
        /// When it was appended, on the store's clock.
        pub timestamp: Moment { field: "at_ms" },
        /// Tenant that was acted upon; `__admin__` for none, `__unauth__` where the caller is unknown.
        pub tenant_id: String,
        /// API key that was used.
        pub key_id: Option<String>,
        /// Address that the request came from.
        pub source_ip: Option<String>,
        /// Operation; of a refused request its method and path.
        pub operation: String,
        /// Kind of what was acted upon.
        pub resource_type: Option<String>,
        /// Id of what was acted upon.
        pub resource_id: Option<String>,
        /// Request.
        pub request_id: Option<String>,
        /// Trace of the request.
        pub trace_id: Option<String> { keyword: TRACE_ID_PATTERN },
        /// HTTP status of the response.
        pub status: i64 { described_as: || json!({"type": "integer"}) },
        /// Error code of a refusal.
        pub error_code: Option<String>,
        /// The metadata of the operation.
        pub metadata: Metadata { skip_if: Metadata::is_empty },
    }
    unsent {
        /// Program that called; not recorded.
        user_agent: String,
        /// Subject of a request of the runtime plane; not recorded.
        subject: FreeObject,
        /// Action of a request of the runtime plane; not recorded.
        action: FreeObject,
        /// Amount of a request of the runtime plane; not recorded.
        amount: FreeObject,
    }
}

impl AuditLogEntry {
    /// Reads an entry of a chain. Its id names the partition, the tenant by 96 bits of its digest, and the place in the stream.
    ///
    /// # Errors
    /// [`RecordError`] names the field that is missing or unreadable.
    pub fn read(
        partition: Partition,
        tenant: &str,
        entry: EntryId,
        record: Record,
    ) -> Result<Self, RecordError> {
        let id = format!("log_{partition}_{}_{entry}", tenant_digest(tenant));
        Self::from_record(&record.with("log_id", id).with("tenant_id", tenant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(fields: &[(&str, &str)]) -> StoredEntry {
        let pairs = fields.iter().flat_map(|(name, value)| [*name, *value]);
        StoredEntry {
            id: "1775745000007-0".to_owned(),
            fields: pairs.map(str::to_owned).collect(),
        }
    }

    fn read(tenant: &str, stored: StoredEntry) -> Result<AuditLogEntry, RecordError> {
        let entry = EntryId::parse(&stored.id).expect("an entry");
        let record = Record::from_pairs(stored.fields);
        AuditLogEntry::read(Partition::FIRST, tenant, entry, record)
    }

    #[test]
    fn a_hash_is_over_the_canonical_form_with_the_seal() {
        let entry = stored(&[("sequence", "1"), ("operation", "a\"b")]);
        let text = format!(
            r#"{{"entry":"1775745000007-0","fields":["sequence","1","operation","a\"b"],"prev_hash":"{GENESIS}","tenant_id":"acme"}}"#
        );
        let expected = hex(&Sha256::digest(&text));
        assert_eq!(entry.hash("acme", GENESIS), expected);
        let others = [
            entry.hash("bolt", GENESIS),
            entry.hash("acme", &expected),
            stored(&[("sequence", "1")]).hash("acme", GENESIS),
        ];
        assert!(!others.contains(&expected));
    }

    #[test]
    fn an_entry_is_shown_without_its_number_and_with_typed_metadata() {
        let entry = stored(&[
            ("sequence", "7"),
            ("at_ms", "1775745000007"),
            ("operation", "bulkActionBudgets"),
            ("status", "200"),
            ("metadata.total_matched", "9223372036854775807"),
            (
                "metadata_json.filter",
                r#"{"tenant_id":"acme","utilization_min":0.5}"#,
            ),
            ("metadata_json.failed_rows", "[]"),
            ("metadata_json.broken", "{"),
            ("metadata.cascade.in_progress", "false"),
            ("metadata.cascade.budgets_closed", "2"),
            ("metadata.permissions", " budgets:read budgets:write "),
            ("metadata.scope_filter", "agent:x app:*"),
            ("metadata.priority", ""),
            ("metadata.commit_overage_policy", ""),
        ]);
        let shown = read("acme", entry).expect("a complete entry");
        assert_eq!(shown.operation, "bulkActionBudgets");
        let shown = serde_json::to_string(&shown.metadata).expect("JSON");
        let metadata = concat!(
            r#"{"broken":"{","cascade":{"budgets_closed":2,"in_progress":false},"commit_overage_policy":null,"#,
            r#""failed_rows":[],"filter":{"tenant_id":"acme","utilization_min":0.5},"#,
            r#""permissions":["budgets:read","budgets:write"],"priority":null,"#,
            r#""scope_filter":["agent:x","app:*"],"total_matched":9223372036854775807}"#
        );
        assert_eq!(shown, metadata);
    }

    #[test]
    fn a_refusal_has_method_and_path_in_its_metadata() {
        let entry = stored(&[
            ("at_ms", "1775745000007"),
            ("operation", "POST:/v1/admin/tenants"),
            ("status", "400"),
            ("error_code", "INVALID_REQUEST"),
            ("metadata.error_message", "no"),
        ]);
        let shown = read("__admin__", entry).expect("complete");
        let shown = serde_json::to_string(&shown.metadata).expect("JSON");
        let metadata = r#"{"error_message":"no","method":"POST","path":"/v1/admin/tenants"}"#;
        assert_eq!(shown, metadata);
        let without_status = read("acme", stored(&[("at_ms", "1"), ("operation", "x")]));
        assert_eq!(without_status.map(drop), Err(RecordError::of("status")));
    }
}
