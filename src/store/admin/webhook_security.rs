//! `put_webhook_security.lua`: the rules for addresses of receivers, of the whole deployment.

use crate::domain::ids::Partition;
use crate::driver::clock::Day;
use crate::store::admin::{AdminError, Pairs, push_day, push_pairs};
use crate::store::scripts::PUT_WEBHOOK_SECURITY;
use crate::store::{Store, StoreError};

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
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn webhook_security(&self) -> Result<Option<StoredSecurity>, StoreError> {
        let key = self.keys().webhook_security(Partition::FIRST);
        let mut read = redis::cmd("HMGET");
        read.arg(&key)
            .arg("blocked_cidr_ranges")
            .arg("allowed_url_patterns")
            .arg("allow_http");
        let reply = self.query(&key, &read).await?;
        let fields: Vec<Option<String>> = redis::from_redis_value(reply).unwrap_or_default();
        Ok(match <[Option<String>; 3]>::try_from(fields) {
            Ok(
                [
                    Some(blocked_cidr_ranges),
                    Some(allowed_url_patterns),
                    Some(allow_http),
                ],
            ) => Some(StoredSecurity {
                blocked_cidr_ranges,
                allowed_url_patterns,
                allow_http: allow_http == "1",
            }),
            _ => None,
        })
    }

    /// Replaces the rules; `sentinel` names the log that the audit entry belongs to.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put_webhook_security(
        &self,
        security: &StoredSecurity,
        sentinel: &str,
        audit: &Pairs,
    ) -> Result<(), AdminError> {
        let (keys, partition) = (self.keys(), Partition::FIRST);
        let build = |day: Day| {
            let key_names = vec![
                keys.webhook_security(partition),
                keys.audit(partition, sentinel, day),
                keys.chain(partition, sentinel),
                keys.unsealed(partition),
                keys.days(partition),
            ];
            let mut args = Vec::new();
            push_day(&mut args, day);
            let allow_http = if security.allow_http { "1" } else { "0" };
            args.extend([sentinel, &security.blocked_cidr_ranges].map(str::to_owned));
            args.extend([&security.allowed_url_patterns, allow_http].map(str::to_owned));
            push_pairs(&mut args, audit);
            (key_names, args)
        };
        let (word, reply) = self.admin_call(&PUT_WEBHOOK_SECURITY, build).await?;
        match word.as_str() {
            "stored" => Ok(()),
            other => Err(reply.unknown(other).into()),
        }
    }
}
