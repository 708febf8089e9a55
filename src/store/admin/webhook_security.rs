//! `put_webhook_security.lua`: the rules for addresses of receivers, of the whole deployment.

use crate::domain::ids::Partition;
use crate::store::records::command;
use crate::store::signature::signature;
use crate::store::{Pair, Store, StoreError};

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
        audit: &'a [Pair],
    }
    replies { clock, stored: Stored }
    writes "On stored: the rules, the audit entry."
}

impl Store {
    /// The rules as they are stored: JSON arrays of networks and of patterns, and whether `http` is allowed. `None` where none
    /// were ever stored.
    pub async fn webhook_security(&self) -> Result<Option<(String, String, bool)>, StoreError> {
        let key = self.keys().webhook_security(Partition::FIRST);
        let names = ("blocked_cidr_ranges", "allowed_url_patterns", "allow_http");
        let (ranges, patterns, allow_http): (Option<String>, Option<String>, Option<String>) =
            self.fetch(&command("HMGET", key, names)).await?;
        let stored = || Some((ranges?, patterns?, allow_http? == "1"));
        Ok(stored())
    }
}
