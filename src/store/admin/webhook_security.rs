//! `put_webhook_security.lua`: the rules for addresses of receivers, of the whole deployment.

use crate::domain::ids::Partition;
use crate::store::admin::Pairs;
use crate::store::records::command;
use crate::store::signature::signature;
use crate::store::{OperationError, Pair, Store, StoreError};

signature! {
    /// Replaces the rules for addresses of webhook receivers.
    PUT_WEBHOOK_SECURITY: PutWebhookSecurity -> PutWebhookSecurityReply = "admin/webhooks/put_webhook_security";
    names { partition: Partition }
    keys of partition {
        write webhook_security(), audit_log: audit(sentinel, day), chain(sentinel), unsealed(), days();
    }
    args {
        day,
        /// Whose audit log it is.
        sentinel: &'a str,
        /// JSON.
        blocked_cidr_ranges: &'a str,
        /// JSON.
        allowed_url_patterns: &'a str,
        allow_http: bool,
        /// Names and values of the audit entry.
        audit: &'a [Pair],
    }
    replies { clock, stored: Stored }
    writes "On stored: the rules, the audit entry."
}

type ThreeTexts = (Option<String>, Option<String>, Option<String>);

/// The rules as they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSecurity {
    /// JSON array of networks.
    pub blocked_cidr_ranges: String,
    /// JSON array of patterns.
    pub allowed_url_patterns: String,
    /// Whether `http` is allowed.
    pub allow_http: bool,
}

impl Store {
    /// The rules; `None` where none were ever stored.
    pub async fn webhook_security(&self) -> Result<Option<StoredSecurity>, StoreError> {
        let key = self.keys().webhook_security(Partition::FIRST);
        let names = ("blocked_cidr_ranges", "allowed_url_patterns", "allow_http");
        let (blocked_cidr_ranges, allowed_url_patterns, allow_http): ThreeTexts =
            self.read(command("HMGET", key, names)).await?;
        let stored = || {
            Some(StoredSecurity {
                blocked_cidr_ranges: blocked_cidr_ranges?,
                allowed_url_patterns: allowed_url_patterns?,
                allow_http: allow_http? == "1",
            })
        };
        Ok(stored())
    }

    /// Replaces the rules; `sentinel` names the log that the audit entry belongs to.
    pub async fn put_webhook_security(
        &self,
        security: &StoredSecurity,
        sentinel: &str,
        audit: &Pairs,
    ) -> Result<(), OperationError> {
        let call = PutWebhookSecurity {
            partition: Partition::FIRST,
            sentinel,
            blocked_cidr_ranges: &security.blocked_cidr_ranges,
            allowed_url_patterns: &security.allowed_url_patterns,
            allow_http: security.allow_http,
            audit,
        };
        let PutWebhookSecurityReply::Stored = self.outcome(&call).await?;
        Ok(())
    }
}
