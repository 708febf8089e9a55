//! `admin webhook rules`.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::api::operations::OperationId;
use crate::tools::call::Call;

/// What `--block` takes to block no range.
const NOTHING: &str = "none";

#[derive(Debug, Subcommand)]
pub(super) enum Rules {
    /// Show the rules
    Show,
    /// Replace all the rules; what is not given gets its default
    Set(Set),
}

#[derive(Debug, Args)]
pub(super) struct Set {
    /// Networks that receivers must not be in, such as 10.0.0.0/8; comma-separated; `none` for no network, for
    /// development. By default private networks, loopback and link-local
    #[arg(long = "block", value_name = "NETWORK", value_delimiter = ',')]
    blocked: Vec<String>,
    /// Only URLs that match one of these patterns, such as https://*.example.com/*; repeated
    #[arg(long = "url-pattern", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Allow http, for development
    #[arg(long)]
    allow_http: bool,
}

impl Rules {
    pub fn call(self) -> Call {
        let set = match self {
            Self::Show => return Call::of(OperationId::GetWebhookSecurityConfig),
            Self::Set(set) => set,
        };
        let mut body = json!({"allowed_url_patterns": set.patterns, "allow_http": set.allow_http});
        if !set.blocked.is_empty() {
            let mut blocked = set.blocked;
            blocked.retain(|range| range != NOTHING);
            body["blocked_cidr_ranges"] = blocked.into();
        }
        let mut call = Call::of(OperationId::UpdateWebhookSecurityConfig);
        // As it is: an empty list is not an absent one.
        call.body = Some(body);
        call
    }
}
