//! The rules for addresses of receivers: `GET` and `PUT /v1/admin/config/webhook-security`.

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Array, ArrayBuilder, ObjectBuilder, Type};

use crate::admin::webhooks::SecuritySettings;
use crate::domain::cidr::Cidr;
use crate::domain::fields::{Problems, read_body};
use crate::domain::json::Json;
use crate::egress::UrlPattern;

/// Most networks, and most patterns, of the security configuration.
const RULES_MAX: usize = 1_000;

/// The rules for addresses of receivers.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSecurityConfig {
    /// Networks that no delivery goes to, besides some that none ever goes to.
    #[schema(schema_with = ranges_schema, required = false)]
    pub blocked_cidr_ranges: Vec<String>,
    /// Of which an address must match one, if there are any: `https://*.example.com/*`.
    #[schema(required = false)]
    pub allowed_url_patterns: Vec<String>,
    /// Whether `http` is allowed: for development.
    #[schema(default = false, required = false)]
    pub allow_http: bool,
}

fn ranges_schema() -> Array {
    let item = ObjectBuilder::new().schema_type(Type::String).build();
    let about = "Networks that no delivery goes to, besides some that none ever goes to.";
    ArrayBuilder::new()
        .description(Some(about))
        .items(item)
        .default(Some(SecuritySettings::default().blocked_cidr_ranges.into()))
        .build()
}

impl WebhookSecurityConfig {
    /// Reads the body; what is absent has its default.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        let default = SecuritySettings::default();
        read_body(body, |body| {
            let ranges = body.optional("blocked_cidr_ranges", |value| {
                value.array(RULES_MAX, |range| {
                    let good = |text: &str| text.parse::<Cidr>().is_ok();
                    range.checked_string(good, "must be a network such as 10.0.0.0/8")
                })
            });
            let patterns = body.optional("allowed_url_patterns", |value| {
                value.array(RULES_MAX, |pattern| {
                    let good = |text: &str| text.parse::<UrlPattern>().is_ok();
                    pattern
                        .checked_string(good, "must be a pattern such as https://*.example.com/*")
                })
            });
            let allow_http = body.optional("allow_http", |value| value.boolean());
            Some(Self {
                blocked_cidr_ranges: ranges.unwrap_or(default.blocked_cidr_ranges),
                allowed_url_patterns: patterns.unwrap_or(default.allowed_url_patterns),
                allow_http: allow_http.unwrap_or(default.allow_http),
            })
        })
    }
}
