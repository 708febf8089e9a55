//! Reads and replaces the rules for addresses of receivers.

use super::Webhooks;
use crate::admin::audit::entry;
use crate::domain::cause::Cause;
use crate::domain::cidr::Cidr;
use crate::domain::fields::{Form, Read as _, Text, object};
use crate::domain::ids::Partition;
use crate::domain::tenant::NO_TENANT;
use crate::egress::{BLOCKED_BY_DEFAULT, SecurityPolicy, UrlPattern};
use crate::store::OperationError;
use crate::store::admin::webhook_security::{PutWebhookSecurity, PutWebhookSecurityReply};

/// Most networks, and most patterns, of the security configuration.
const RULES_MAX: usize = 1_000;

static NETWORK: Form = Form {
    wanted: "a network such as 10.0.0.0/8",
    accepts: |text| text.parse::<Cidr>().is_ok(),
    published: None,
};

static PATTERN: Form = Form {
    wanted: "a pattern such as https://*.example.com/*",
    accepts: |text| text.parse::<UrlPattern>().is_ok(),
    published: None,
};

object! {
    /// Rules for the addresses of receivers. What is absent has its default.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WebhookSecurityConfig: Read + Serialize {
        /// Networks that no delivery goes to, besides some that are always refused.
        pub blocked_cidr_ranges: Vec<String> {
            unpublished_items: ..=RULES_MAX,
            each: Text::form(&NETWORK),
            default: BLOCKED_BY_DEFAULT.map(str::to_owned).to_vec(),
        },
        /// Patterns, one of which an address must match, if there are any: `https://*.example.com/*`.
        pub allowed_url_patterns: Vec<String> {
            unpublished_items: ..=RULES_MAX,
            each: Text::form(&PATTERN),
            default: Vec::new(),
        },
        /// Whether `http` is allowed: for development.
        pub allow_http: bool { default: false },
    }
}

impl Default for WebhookSecurityConfig {
    fn default() -> Self {
        Self::parse_json("{}").expect("every member has a default")
    }
}

fn corrupt() -> OperationError {
    OperationError::Corrupt("webhooksecurity".to_owned())
}

impl Webhooks {
    /// The rules in force.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub async fn security(&self) -> Result<WebhookSecurityConfig, OperationError> {
        let Some((ranges, patterns, allow_http)) = self.store.webhook_security().await? else {
            return Ok(WebhookSecurityConfig::default());
        };
        let list = |json: &str| serde_json::from_str(json).map_err(|_| corrupt());
        Ok(WebhookSecurityConfig {
            blocked_cidr_ranges: list(&ranges)?,
            allowed_url_patterns: list(&patterns)?,
            allow_http,
        })
    }

    /// Replaces the rules; they have been judged. In force for the next address that is judged, on every replica.
    ///
    /// # Errors
    /// Of the store.
    pub async fn put_security(
        &self,
        settings: &WebhookSecurityConfig,
        cause: &Cause,
    ) -> Result<(), OperationError> {
        let operation = "updateWebhookSecurityConfig";
        let mut audit = entry(cause, operation, ("config", "webhook-security"), 200);
        let ranges = settings.blocked_cidr_ranges.len().to_string();
        let patterns = settings.allowed_url_patterns.len().to_string();
        audit.extend([
            ("metadata.allow_http", settings.allow_http.to_string()),
            ("metadata.blocked_cidr_count", ranges),
            ("metadata.allowed_url_pattern_count", patterns),
        ]);
        let json = |list: &[String]| serde_json::to_string(list).expect("texts serialize");
        let call = PutWebhookSecurity {
            partition: Partition::FIRST,
            sentinel: NO_TENANT,
            blocked_cidr_ranges: &json(&settings.blocked_cidr_ranges),
            allowed_url_patterns: &json(&settings.allowed_url_patterns),
            allow_http: settings.allow_http,
            audit: &audit,
        };
        let PutWebhookSecurityReply::Stored = self.store.outcome(&call).await?;
        Ok(())
    }

    /// The rules, ready to judge by. What is stored was judged when it was put; a rule that cannot be read any more is no
    /// reason to let everything pass.
    pub(super) async fn policy(&self) -> Result<SecurityPolicy, OperationError> {
        let settings = self.security().await?;
        let blocked = settings.blocked_cidr_ranges.iter();
        let blocked: Option<Vec<_>> = blocked.map(|text| text.parse().ok()).collect();
        let patterns = settings.allowed_url_patterns.iter();
        let patterns: Option<Vec<_>> = patterns.map(|text| text.parse().ok()).collect();
        let (blocked, patterns) = blocked.zip(patterns).ok_or_else(corrupt)?;
        Ok(SecurityPolicy {
            blocked,
            patterns,
            allow_http: settings.allow_http,
        })
    }

    /// Says at a start that the rules are those of a development set-up.
    ///
    /// # Errors
    /// Of the store.
    pub async fn warn_of_open_security(&self) -> Result<(), OperationError> {
        let settings = self.security().await?;
        if settings.blocked_cidr_ranges.is_empty() && settings.allow_http {
            tracing::warn!(
                "webhooks may be delivered to this host and to private networks, without TLS: \
                 the security configuration of webhooks blocks no range and allows http"
            );
        }
        Ok(())
    }
}
