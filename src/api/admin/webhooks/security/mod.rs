//! The rules for addresses of receivers.

pub mod get;
pub mod update;

use crate::admin::webhooks::SecuritySettings;
use crate::domain::cidr::Cidr;
use crate::domain::fields::{Form, Text, object};
use crate::egress::UrlPattern;

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
    #[derive(Debug, Clone)]
    pub struct WebhookSecurityConfig: Read + Show {
        /// Networks that no delivery goes to, besides some that are always refused.
        pub blocked_cidr_ranges: Vec<String> {
            unpublished_items: ..=RULES_MAX,
            each: Text::form(&NETWORK),
            default: SecuritySettings::default().blocked_cidr_ranges,
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

impl From<SecuritySettings> for WebhookSecurityConfig {
    fn from(settings: SecuritySettings) -> Self {
        Self {
            blocked_cidr_ranges: settings.blocked_cidr_ranges,
            allowed_url_patterns: settings.allowed_url_patterns,
            allow_http: settings.allow_http,
        }
    }
}
