//! Reads and replaces the rules for addresses of receivers.

use tracing::{debug, warn};

use super::{Webhooks, joined};
use crate::domain::audit::entry::{add, entry};
use crate::domain::cause::Cause;
use crate::domain::cidr::Cidr;
use crate::domain::fields::{Form, Read as _, Text, object};
use crate::domain::ids::Partition;
use crate::domain::tenant::NO_TENANT;
use crate::egress::{BLOCKED_BY_DEFAULT, SecurityPolicy, UrlPattern, unblocked_defaults};
use crate::store::admin::webhooks::{PutWebhookSecurity, PutWebhookSecurityReply};
use crate::store::{Lane, StoreError, outcome};

/// Most networks, and most patterns, of the security configuration.
const RULES_MAX: usize = 1_000;

static NETWORK: Form = Form {
    wanted: "a network with its prefix length, such as 10.0.0.0/8 or 192.0.2.7/32",
    accepts: |text| text.contains('/') && text.parse::<Cidr>().is_ok(),
    published: None,
};

static PATTERN: Form = Form {
    wanted: "a pattern such as https://*.example.com/*",
    accepts: |text| text.parse::<UrlPattern>().is_ok(),
    published: None,
};

object! {
    /// Rules for the addresses of receivers. Absent members have their defaults.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WebhookSecurityConfig: Read + Serialize {
        /// Networks that no delivery goes to, besides some that are always refused. Loopback, link-local and metadata of
        /// clouds stay refused where they are left out, unless `http` is allowed.
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

impl WebhookSecurityConfig {
    /// The default ranges that these rules leave out.
    fn removed_default_ranges(&self) -> Vec<&'static str> {
        let ranges = self.blocked_cidr_ranges.iter();
        let ranges: Vec<Cidr> = ranges.filter_map(|text| text.parse().ok()).collect();
        unblocked_defaults(&ranges)
    }

    fn warn_of_removed_ranges(&self) {
        let removed = joined(self.removed_default_ranges());
        if removed.is_empty() {
            return;
        }
        let but = match self.allow_http {
            true => "",
            false => {
                ", but not to loopback, link-local and metadata of clouds, since allow_http is false"
            }
        };
        warn!(
            removed_default_ranges = removed,
            allow_http = self.allow_http,
            "the security configuration of webhooks leaves out the default ranges {removed}: webhooks may be delivered \
             there{but}"
        );
    }
}

fn corrupt() -> StoreError {
    StoreError::Corrupt("webhooksecurity".to_owned())
}

impl Webhooks {
    /// The rules in force.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub async fn security(&self) -> Result<WebhookSecurityConfig, StoreError> {
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
    ) -> Result<(), StoreError> {
        let operation = "updateWebhookSecurityConfig";
        let mut audit = entry(cause, operation, ("config", "webhook-security"), Some(200));
        let ranges = settings.blocked_cidr_ranges.len();
        let patterns = settings.allowed_url_patterns.len();
        let removed = joined(settings.removed_default_ranges());
        let removed = Some(removed).filter(|removed| !removed.is_empty());
        let allow_http = Some(settings.allow_http);
        add(&mut audit, "metadata.allow_http", allow_http);
        add(&mut audit, "metadata.blocked_cidr_count", Some(ranges));
        let count = "metadata.allowed_url_pattern_count";
        add(&mut audit, count, Some(patterns));
        add(&mut audit, "metadata.removed_default_ranges", removed);
        let json = |list: &[String]| serde_json::to_string(list).expect("texts serialize");
        let call = PutWebhookSecurity {
            partition: Partition::FIRST,
            sentinel: NO_TENANT,
            blocked_cidr_ranges: &json(&settings.blocked_cidr_ranges),
            allowed_url_patterns: &json(&settings.allowed_url_patterns),
            allow_http: settings.allow_http,
            audit: &audit,
        };
        let PutWebhookSecurityReply::Stored = outcome(self.store.run(Lane::Request, &call).await)?;
        settings.warn_of_removed_ranges();
        Ok(())
    }

    /// The rules, ready to judge by. What is stored was judged when it was put; a rule that cannot be read any more is no
    /// reason to let everything pass.
    pub(crate) async fn policy(&self) -> Result<SecurityPolicy, StoreError> {
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

    /// Warns at a start of default ranges that the rules leave out.
    pub async fn warn_of_open_security(&self) {
        match self.security().await {
            Ok(settings) => settings.warn_of_removed_ranges(),
            Err(error) => {
                debug!(error = %error, "the security configuration of webhooks cannot be read yet: {error}");
            }
        }
    }
}
