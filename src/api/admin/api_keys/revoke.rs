//! Revokes an API key.

use serde_json::json;

use crate::api::admin::extract::{Change, NoBody, Target};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare, parameters};
use crate::api::query::Query;
use crate::api::response::{CheckedJson, Returns};
use crate::domain::api_key::ApiKey;
use crate::domain::caller::Caller;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(revoke_api_key, "Revokes an API key at once")
        .query(|| {
            let reason = json!({"type": "string", "maxLength": 512});
            vec![parameters::query("reason", "Why, for the record.", reason)]
        })
        .idempotent()
        .returns::<ApiKey>(200, "The revoked key.")
        .refuses(&[404, 409]);

/// The key to revoke, and why.
#[derive(Debug)]
struct RevokedKey {
    key_id: String,
    reason: Option<String>,
}

impl Target for RevokedKey {
    fn read(key_id: String, query: &str, _: &Caller) -> Result<Self, ApiError> {
        Ok(Self {
            key_id,
            reason: reason(query)?,
        })
    }

    fn selected(&self) -> Vec<(&'static str, &str)> {
        let reason = self.reason.as_deref().map(|reason| ("reason", reason));
        [("key_id", self.key_id.as_str())]
            .into_iter()
            .chain(reason)
            .collect()
    }
}

/// At most 512 characters; a blank reason is none.
fn reason(query: &str) -> Result<Option<String>, ApiError> {
    Query::parse_admin(query).text("reason", 512)
}

async fn revoke_api_key(change: Change<NoBody, RevokedKey>) -> Returns<ApiKey> {
    let RevokedKey { key_id, reason } = &change.target;
    let (admin, request) = (&change.state.admin, change.request());
    let revoked = admin.revoke_api_key(key_id, reason.as_deref(), &request);
    Ok(CheckedJson::ok(revoked.await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_for_revoking_is_bounded() {
        assert_eq!(reason("reason=leaked").unwrap().as_deref(), Some("leaked"));
        assert_eq!(reason("reason=%20").unwrap(), None);
        assert!(reason(&format!("reason={}", "x".repeat(513))).is_err());
    }
}
